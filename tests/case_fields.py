"""What tests of cases share: reading every field or failing, what a case's Python may use, names of outcomes."""

from __future__ import annotations

import importlib.util
import io
import json
import os
import shutil
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from agentctl.agents.ends import End

# In scope of the fields that end in _python.
SCOPE: dict[str, Any] = {
    "json": json,
    "os": os,
    "unicodedata": unicodedata,
    "np": np,
    "Image": Image,
    "BytesIO": io.BytesIO,
}

# The cases' names for how a task ended.
STATUS: dict[str, frozenset[End]] = {
    "success": frozenset({End.FINISHED}),
    "cost_limit": frozenset({End.COST}),
    "step_limit": frozenset({End.STEPS}),
    "time_limit": frozenset({End.TIME}),
    "context_exceeded": frozenset({End.CONTEXT}),
    "stuck": frozenset({End.STUCK}),
    "refused": frozenset({End.REFUSED}),
    "format_error": frozenset({End.FORMAT}),
    "empty_response": frozenset({End.FORMAT}),
    "provider_error": frozenset({End.PROVIDER}),
    "infrastructure_error": frozenset({End.PROVIDER, End.SANDBOX}),
    "cancelled": frozenset({End.CANCELLED}),
    "crash": frozenset({End.CRASH}),
}


def ends_of(status: str) -> frozenset[End]:
    """The end reasons that a case means by `status`."""
    if status not in STATUS:
        pytest.fail(f"this test can't map the task status {status!r}; it knows {', '.join(STATUS)}")
    return STATUS[status]


class Fields(dict[str, Any]):
    """A case's `input` or `expect.exact`: what is not there fails the test by name, and so does what nobody read."""

    def __init__(self, given: dict[str, Any], where: str) -> None:
        super().__init__(given)
        self._where = where
        self._read: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        if name not in self:
            pytest.fail(f"this test can't map {self._where}: it has no {name!r}, only {sorted(self)}")
        self._read.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self._read.add(name)
        return super().get(name, default)

    def done(self) -> None:
        """To be called at the end: whatever was not read, was not tested."""
        if unread := sorted(self.keys() - self._read):
            pytest.fail(f"this test can't map {self._where}: {', '.join(unread)}")


def fields_of(case: dict[str, Any]) -> tuple[Fields, Fields]:
    """A case's input, and what is expected exactly."""
    return Fields(case["input"], "input"), Fields(case["expect"].get("exact", {}), "expect.exact")


def several(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def skip_without(needs: str | list[str]) -> None:
    """Skip the test where a program or library that its case names is missing."""
    for name in several(needs):
        if shutil.which(name) is None and importlib.util.find_spec(name) is None:
            pytest.skip(f"needs {name}")


@contextmanager
def inside(folder: Path) -> Iterator[None]:
    """With `folder` as the current one."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
