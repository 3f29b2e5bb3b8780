"""Fixtures for tests of AutoGPT's commands, on each kind of sandbox: load them with `pytest_plugins`."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from autogpt_place import Desk, open_desk

from agentctl.base.cancel import Cancel


@pytest.fixture(params=["local", "bubblewrap"], scope="module")
def kind(request: pytest.FixtureRequest) -> str:
    if request.param == "bubblewrap" and shutil.which("bwrap") is None:
        pytest.skip("needs bwrap")
    return str(request.param)


@pytest.fixture(scope="module")
def long_lived(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    desk = open_desk(tmp_path_factory.mktemp(kind), kind)
    yield desk
    desk.close()


@pytest.fixture
def desk(long_lived: Desk) -> Desk:
    """One sandbox for many tests, its workspace emptied before each."""
    for path in long_lived.folder.parent.iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    long_lived.folder.mkdir()
    while len(long_lived.items):
        long_lived.items.close(1)
    long_lived.cancel = Cancel()
    long_lived.seconds_left = 600.0
    long_lived.asked.clear()
    long_lived.notes.clear()
    return long_lived
