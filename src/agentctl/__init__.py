"""agentctl: run, meter, record, replay and compare agents that reproduce papers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentctl.benchmarks.solving import solve

__version__ = "0.1.0"
__all__ = ["__version__", "solve"]


def __getattr__(name: str) -> object:
    """`agentctl.solve` is loaded when it is asked for: `import agentctl` stays light."""
    if name == "solve":
        from agentctl.benchmarks.solving import solve

        return solve
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
