"""Waiting for a call that can't be interrupted."""

from __future__ import annotations

import threading

import pytest

from agentctl.agents.models.attend import Patience, TimeLimit, attend
from agentctl.base.cancel import Cancel


def test_calls_that_were_left_leave_no_thread_each() -> None:
    before = threading.active_count()
    for _ in range(20):
        leave = threading.Event()
        with pytest.raises(TimeLimit):
            attend(lambda leave=leave: leave.wait(5.0) and fail(), Cancel(), Patience(0.01), leave=leave.set)  # type: ignore[misc]
    assert threading.active_count() <= before + 2


def fail() -> None:
    raise ConnectionError("cut")
