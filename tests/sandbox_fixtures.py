"""Fixtures that run a test once for each kind of sandbox. Used by `pytest_plugins = ("sandbox_fixtures",)`."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sandboxes import KINDS, opened

from agentctl.tools.sandbox.protocol import Sandbox


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    if request.param == "bubblewrap" and shutil.which("bwrap") is None:
        pytest.skip("needs bwrap")
    return str(request.param)


@pytest.fixture
def open_kind(kind: str, tmp_path: Path) -> Iterator[Callable[..., Sandbox]]:
    """Opens sandboxes of the kind under test; closes them all at the end."""
    with contextlib.ExitStack() as stack:
        numbers = iter(range(100))

        def make(**options: Any) -> Sandbox:
            base = tmp_path / f"s{next(numbers)}"
            base.mkdir()
            sandbox = opened(kind, base, **options)
            stack.callback(sandbox.close)
            return sandbox

        yield make


@pytest.fixture
def box(open_kind: Callable[..., Sandbox]) -> Sandbox:
    return open_kind()
