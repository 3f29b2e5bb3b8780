"""Where tests find inputs that others can bring: `pytest --shared DIR` reads DIR/cases and DIR/conformance.

Without the option that is `../shared`, where it exists. The project's own inputs of the same form, in `tests/data`, are
read besides, always.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

OWN = Path(__file__).parent / "data"
NEIGHBOUR = Path(__file__).parents[2] / "shared"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shared", default=None, help="folder with cases/ and conformance/ to test against")


def pytest_configure(config: pytest.Config) -> None:
    for name in [name for name in os.environ if name.startswith("AGENTCTL_")]:
        del os.environ[name]  # whoever runs the tests may have settings and capsules of their own
    os.environ["AGENTCTL_SCAFFOLD"] = "plain"  # the models that tests script call natively
    os.environ["XDG_CONFIG_HOME"] = os.environ["XDG_DATA_HOME"] = "/nonexistent"
    given = config.getoption("--shared")
    if given is not None and not Path(given).is_dir():
        raise pytest.UsageError(f"--shared {given}: no such folder")


def folders(config: pytest.Config) -> list[Path]:
    """The folders that cases and conformance files are read from in this run."""
    given = config.getoption("--shared")
    others = Path(given) if given is not None else NEIGHBOUR
    found = [others.resolve()] if given is not None or (others / "cases").is_dir() else []
    return [*found, *([OWN] if OWN not in found else [])]


def entries_of(config: pytest.Config, area: str) -> list[dict[str, Any]]:
    """The entries of every cases/<area>.json. Fails where one is not of the cases' form."""
    found: list[dict[str, Any]] = []
    for folder in folders(config):
        path = folder / "cases" / f"{area}.json"
        entries = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(entries, list):
            pytest.fail(f"{path}: not a list of cases", pytrace=False)
        for n, entry in enumerate(entries):
            lacking = [field for field in ("id", "kind", "input", "expect") if field not in entry]
            if lacking:
                pytest.fail(f"{path}: entry {n} has no {' and no '.join(lacking)}", pytrace=False)
        found += entries
    return found


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`@pytest.mark.cases("shell", later={"SH-99": "why"})`: once for each entry of cases/shell.json, as `case`.

    `only`, a function of an entry, leaves out what another test takes.
    """
    for marker in metafunc.definition.iter_markers("cases"):
        later: dict[str, str] = marker.kwargs.get("later", {})
        only: Callable[[dict[str, Any]], bool] = marker.kwargs.get("only", lambda entry: True)
        params = []
        for entry in filter(only, entries_of(metafunc.config, marker.args[0])):
            marks = []
            if entry["id"] in later:
                marks.append(pytest.mark.xfail(reason=later[entry["id"]], strict=True))
            params.append(pytest.param(entry, id=entry["id"], marks=marks))
        metafunc.parametrize("case", params)
    if "conformance" in metafunc.fixturenames:
        found = folders(metafunc.config)
        metafunc.parametrize("conformance", found, ids=[folder.name for folder in found], indirect=True)


@pytest.fixture
def conformance(request: pytest.FixtureRequest) -> Callable[[str], Any]:
    """`conformance("cost/cases.json")`: that file of a conformance folder, parsed; once for each folder."""
    folder: Path = request.param / "conformance"
    return lambda name: json.loads((folder / name).read_text(encoding="utf-8"))
