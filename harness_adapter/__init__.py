"""agentctl under other people's harnesses, and out to other people's viewers."""
