"""When a failed send is tried again, and after what pause. The only place that retries: clients and SDKs send once."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import tenacity

from .protocol import Fault, ProviderError


@dataclass(frozen=True)
class RetryPolicy:
    """How patient a run is with a provider in trouble. Times in seconds."""

    tries: int = 10  # sends of one request, the first included
    tries_absent: int = 3  # where no server is at an address near by, and none comes without a person
    first_pause: float = 1.0  # doubled from try to try
    longest_pause: float = 60.0
    patience: float = 900.0  # all pauses of one request together

    def pause(self, failures: int, asked: float | None, jitter: float) -> float:
        """The pause after that many failures in a row. `jitter` is from 0 to 1; `asked` is the provider's Retry-After.

        Jitter adds at most half, so pauses still grow from one to the next. What the provider asks is never undercut.
        """
        own = min(self.first_pause * 2.0 ** (failures - 1), self.longest_pause) * (1 + jitter / 2)
        return max(own, asked or 0.0)


def retrying(
    policy: RetryPolicy,
    *,
    sleep: Callable[[float], None],
    before_pause: Callable[[ProviderError, float], None],
    jitter: Callable[[], float] = random.random,
) -> tenacity.Retrying:
    """A caller that repeats what it is given while it raises transient ProviderErrors, within `policy`.

    `before_pause` is told each failure that another try follows, and the pause. Any other error, and the last failure,
    is raised as it is. A pause that would use up the patience ends it at once: nobody waits an hour to be told no.
    """

    def wait(state: tenacity.RetryCallState) -> float:
        error = _failure(state)
        return policy.pause(state.attempt_number, error.retry_after if error else None, jitter())

    def stop(state: tenacity.RetryCallState) -> bool:
        error = _failure(state)
        tries = min(policy.tries, policy.tries_absent) if error and error.absent else policy.tries
        return state.attempt_number >= tries or state.idle_for + state.upcoming_sleep > policy.patience

    def tell(state: tenacity.RetryCallState) -> None:
        error = _failure(state)
        if error is not None:
            before_pause(error, state.upcoming_sleep)

    return tenacity.Retrying(
        retry=tenacity.retry_if_exception(_transient),
        wait=wait,
        stop=stop,
        before_sleep=tell,
        sleep=sleep,
        reraise=True,
    )


def _transient(error: BaseException) -> bool:
    return isinstance(error, ProviderError) and error.fault is Fault.TRANSIENT


def _failure(state: tenacity.RetryCallState) -> ProviderError | None:
    error = state.outcome.exception() if state.outcome else None
    return error if isinstance(error, ProviderError) else None
