"""Where tests find inputs that others can replace: `pytest --shared DIR` reads DIR/cases and DIR/conformance.

Without the option: `../shared` where it exists, else the project's own inputs in `tests/data`, whose README tells of
the form.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

OWN = Path(__file__).parent / "data"
NEIGHBOUR = Path(__file__).parents[2] / "shared"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shared", default=None, help="folder with cases/ and conformance/ to test against")


def pytest_configure(config: pytest.Config) -> None:
    given = config.getoption("--shared")
    if given is not None and not Path(given).is_dir():
        raise pytest.UsageError(f"--shared {given}: no such folder")


def shared_folder(config: pytest.Config) -> Path:
    """The folder that cases and conformance files are read from in this run."""
    given = config.getoption("--shared")
    if given is not None:
        return Path(given)
    return NEIGHBOUR if (NEIGHBOUR / "cases").is_dir() else OWN


def read_shared(config: pytest.Config, name: str) -> Any:
    """The parsed JSON file `name` (as `cases/shell.json`) of the shared folder."""
    path = shared_folder(config) / name
    return json.loads(path.read_text(encoding="utf-8"))


def entries_of(config: pytest.Config, area: str) -> list[dict[str, Any]]:
    """The entries of cases/<area>.json. Fails where one is not of the cases' form."""
    entries = read_shared(config, f"cases/{area}.json")
    where = shared_folder(config) / f"cases/{area}.json"
    if not isinstance(entries, list):
        pytest.fail(f"{where}: not a list of cases", pytrace=False)
    for n, entry in enumerate(entries):
        lacking = [field for field in ("id", "kind", "input", "expect") if field not in entry]
        if lacking:
            pytest.fail(f"{where}: entry {n} has no {' and no '.join(lacking)}", pytrace=False)
    return entries


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


@pytest.fixture
def cases(request: pytest.FixtureRequest) -> Callable[[str], list[dict[str, Any]]]:
    """`cases("shell")`: the entries of cases/shell.json."""
    return lambda area: entries_of(request.config, area)


@pytest.fixture
def conformance(request: pytest.FixtureRequest) -> Callable[[str], Any]:
    """`conformance("cost/cases.json")`: that file of the conformance folder, parsed."""
    return lambda name: read_shared(request.config, f"conformance/{name}")
