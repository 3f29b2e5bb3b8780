"""The command `agentctl`."""
