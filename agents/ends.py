"""Why an attempt ended, and the one table that says what follows from each end."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from .models.protocol import Fault


class End(StrEnum):
    """End reasons of an attempt."""

    FINISHED = "finished"  # the agent said so, and the check let it
    COST = "cost"  # the next useful call would not fit the cap
    STEPS = "steps"
    TIME = "time"
    CONTEXT = "context"  # the conversation no longer fits the model's window
    STUCK = "stuck"  # the same call with the same answer, over and over
    REFUSED = "refused"  # the model declined
    FORMAT = "format"  # no usable reply several times in a row
    SCRIPT = "script"  # a script of replies is over: whoever wrote it wanted to see what stands then
    PROVIDER = "provider"  # the model could not be reached, or rejected the request
    SANDBOX = "sandbox"  # the place where commands run failed
    CANCELLED = "cancelled"  # the owner asked for it
    CRASH = "crash"  # a fault of ours, or of the machine (a full disk)


@dataclass(frozen=True)
class Ending:
    """Why an attempt's work ended."""

    end: End
    detail: str = ""
    because_uncertain: bool = False  # an end by cost that spent money alone would not have caused


@dataclass(frozen=True)
class Consequence:
    """What follows from an end: is a new try due, is what stands scored, does it count as the agent's own result."""

    retry: bool
    score: bool
    counts: bool


_AGENTS_OWN = Consequence(retry=False, score=True, counts=True)
_INFRASTRUCTURE = Consequence(retry=True, score=False, counts=False)

CONSEQUENCES: dict[End, Consequence] = {
    End.FINISHED: _AGENTS_OWN,
    End.COST: _AGENTS_OWN,
    End.STEPS: _AGENTS_OWN,
    End.TIME: _AGENTS_OWN,
    End.CONTEXT: _AGENTS_OWN,
    End.STUCK: _AGENTS_OWN,
    End.REFUSED: _AGENTS_OWN,
    End.FORMAT: _AGENTS_OWN,
    End.SCRIPT: _AGENTS_OWN,
    End.PROVIDER: _INFRASTRUCTURE,
    End.SANDBOX: _INFRASTRUCTURE,
    End.CANCELLED: _INFRASTRUCTURE,
    End.CRASH: _INFRASTRUCTURE,
}

END_OF_FAULT: dict[Fault, End] = {
    Fault.TRANSIENT: End.PROVIDER,
    Fault.AUTH: End.PROVIDER,
    Fault.REJECTED: End.PROVIDER,
    Fault.CONTEXT: End.CONTEXT,
    Fault.REFUSED: End.REFUSED,
    Fault.EXHAUSTED: End.PROVIDER,
    Fault.OVER: End.SCRIPT,
}


def consequence(end: End, *, because_uncertain: bool = False) -> Consequence:
    """What follows from `end`. `because_uncertain`: an end by cost that spent money alone would not have caused."""
    if end is End.COST and because_uncertain:
        return _INFRASTRUCTURE
    return CONSEQUENCES[end]
