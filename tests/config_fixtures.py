"""For tests: settings as somebody has them who works in a folder of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentctl.benchmarks.config import Config, Given, find_setting, read_config

Read = Callable[..., Config]


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Read:
    """Reads the settings of one who works in home/work, with these files."""
    home = tmp_path / "home"
    (home / "work").mkdir(parents=True)
    monkeypatch.chdir(home / "work")

    def read_it(project: str = "", user: str = "", flags: dict[str, Any] | None = None, **environment: str) -> Config:
        for path, text in ((home / "work/agentctl.toml", project), (home / ".config/agentctl/agentctl.toml", user)):
            if text:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
        asked = Given("flag")
        for name, value in (flags or {}).items():
            asked.put(find_setting(name), value, f"--{name}")
        return read_config(asked, environment={"HOME": str(home), **environment})

    return read_it
