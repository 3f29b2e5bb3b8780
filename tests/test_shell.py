"""The tool `bash`: the published cases, and inputs of the same kinds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from shell_bench import KINDS, kinds, run_case

ENVIRONMENT_ELSEWHERE = {
    "EN-04": "a sandbox that can't start is tested with the sandboxes and the command line",
    "EN-06": "a prompt's words are tested with the prompts",
}


@pytest.mark.cases("shell")
@pytest.mark.parametrize("kind", KINDS)
def test_shell_case(case: dict[str, Any], kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if kind in kinds(case):
        run_case(case, kind, tmp_path, monkeypatch)


@pytest.mark.cases("environment", later=ENVIRONMENT_ELSEWHERE)
@pytest.mark.parametrize("kind", KINDS)
def test_environment_case(case: dict[str, Any], kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_case(case, kind, tmp_path, monkeypatch)
