"""Fixtures for tests of the file tools, over a sandbox of each kind: load them with `pytest_plugins`."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from file_place import Place, open_place

from agentctl.base.cancel import Cancel


@pytest.fixture(params=["local", "bubblewrap"], scope="module")
def kind(request: pytest.FixtureRequest) -> str:
    if request.param == "bubblewrap" and shutil.which("bwrap") is None:
        pytest.skip("needs bwrap")
    return str(request.param)


@pytest.fixture
def make_place(kind: str, tmp_path: Path) -> Iterator[Callable[[str], Place]]:
    opened: list[Place] = []

    def make(name: str) -> Place:
        opened.append(open_place(tmp_path, name, kind))
        return opened[-1]

    yield make
    for place in opened:
        place.sandbox.close()


@pytest.fixture(scope="module")
def long_lived(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    place = open_place(tmp_path_factory.mktemp(kind), "agent", kind)
    yield place
    place.sandbox.close()


@pytest.fixture
def place(long_lived: Place) -> Place:
    """One sandbox for many tests, its workspace emptied before each."""
    for path in long_lived.folder.iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    long_lived.cancel = Cancel()
    return long_lived
