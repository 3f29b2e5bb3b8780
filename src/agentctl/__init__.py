"""agentctl: run, meter, record, replay and compare agents that reproduce papers."""

__version__ = "0.1.0"
