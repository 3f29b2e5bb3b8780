"""The file tools on inputs that broke others, over each kind of sandbox."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from case_fields import SCOPE, inside
from file_place import TOOLS, Place, rise_in_memory
from file_samples import notebook_of, sample
from pydantic import ValidationError

from agentctl.base.messages import Status
from agentctl.benchmarks.corebench.dataset import Level
from agentctl.benchmarks.corebench.staging import shown, stage
from agentctl.tools.sandbox.make import open_sandbox
from agentctl.tools.sandbox.protocol import SandboxSpec
from agentctl.tools.tool import ToolResult

pytest_plugins = ("file_fixtures",)


def set_up(given: dict[str, Any], place: Place) -> list[dict[str, Any]]:
    """Make what the case's input tells of; returns the calls."""
    setup = given.pop("setup", "")
    if setup.startswith("files:"):
        names = setup.removeprefix("files:").split("(")[0].replace(",", " ").split()
        for name in names:
            (place.folder / name).write_bytes(sample(name))
        calls = given.pop("calls")
        assert calls == "read_file on each", f"can't map calls {calls!r}"
        return [{"tool": "read_file", "path": name} for name in names]
    if ".ipynb with " in setup:
        (place.folder / setup.split(" with ")[0]).write_bytes(notebook_of(setup))
    elif setup:
        subprocess.run(["bash", "-c", setup], cwd=place.folder, check=True, timeout=60)
    for name, content in given.pop("files", {}).items():
        (place.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (place.folder / name).write_text(content, encoding="utf-8")
    for key in ("setup_python", "make_python"):
        if code := given.pop(key, ""):
            with inside(place.folder):
                exec(code, dict(SCOPE))
    if sibling := given.pop("sibling", ""):
        path = Path(sibling.replace("<base>", str(place.base)))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("SECRET-OF-THE-SIBLING", encoding="utf-8")
    calls = [*given.pop("calls", []), *given.pop("more", [])]
    return [
        {key: value.replace("<base>", str(place.base)) if key == "path" else value for key, value in call.items()}
        for call in calls
    ]


def called(place: Place, call: dict[str, Any]) -> ToolResult:
    """What the call gives back. Arguments that don't fit the tool are refused before it runs, as the agent's are."""
    tool = call.pop("tool")
    assert tool in TOOLS, f"can't map the tool {tool!r}: there are {sorted(TOOLS)}"
    try:
        return place.run(tool, **call)
    except ValidationError as misfit:
        return ToolResult.of(str(misfit), status=Status.ERROR)


def outside(place: Place) -> dict[str, tuple[int, int]]:
    """Sizes and times of what is beside the workspace, and in folders that the cases' links lead to."""
    paths = [path for path in place.base.rglob("*") if not path.is_relative_to(place.folder)]
    paths += [*Path("/etc").iterdir(), *place.base.parent.iterdir()]
    return {str(path): (path.lstat().st_size, path.lstat().st_mtime_ns) for path in paths if path.name != "scratch"}


@pytest.mark.cases("files")
def test_files_case(case: dict[str, Any], make_place: Callable[[str], Place], kind: str, tmp_path: Path) -> None:
    given, exact = dict(case["input"]), dict(case["expect"].get("exact", {}))
    if action := given.pop("action", ""):
        assert "list the workspace" in action, f"can't map the action {action!r}"
        assert foreign_entries(tmp_path, given.pop("files_of_harness"), kind) == exact.pop("foreign_entries")
    place = make_place(given.pop("workspace", "<base>/agent").removeprefix("<base>/"))
    results: list[ToolResult] = []
    calls = set_up(given, place) if given else []
    assert not given, f"can't map the input's {sorted(given)}"
    before, began = outside(place), time.monotonic()

    def work() -> None:
        for call in calls:
            results.append(called(place, dict(call)))

    risen, seconds = rise_in_memory(work), time.monotonic() - began
    texts = [result.text() for result in results]
    good = [result.text() for result in results if result.status is Status.OK]
    assert not any("SECRET-OF-THE-SIBLING" in text for text in texts)
    for key, wanted in exact.items():
        match key:
            case "errors":
                assert len(texts) - len(good) == wanted, texts
            case "errors_or_notes":
                assert sum("To look inside" in text for text in texts) == wanted, texts
                assert not any("\ufffd" in text for text in texts)
            case "outside_changed":
                assert (outside(place) != before) == wanted
            case "crash":
                assert wanted is False  # an exception would have ended the test
            case "nonempty_messages":
                assert all(text.strip() for text in texts) == wanted
            case "max_wall_s":
                assert seconds <= wanted
            case "max_extra_rss_mb":
                assert risen <= wanted
            case "outputs":
                assert [text.strip() for text in good] == wanted
            case "outputs_contain":
                assert len(good) >= len(wanted)
                assert all(piece in text for piece, text in zip(wanted, good[-len(wanted) :], strict=True)), good
            case "bytes_python":
                assert (place.folder / calls[-1]["path"]).read_bytes() == eval(wanted, dict(SCOPE))
            case "max_result_chars" | "max_result_chars_each":
                assert all(len(text) <= wanted for text in texts), [len(text) for text in texts]
            case "contains" | "output_contains":
                assert all(piece in "\n".join(texts) for piece in ([wanted] if isinstance(wanted, str) else wanted))
            case "not_contains":
                assert not any(piece in text for piece in wanted for text in texts)
            case "not_contains_python":
                assert not any(eval(piece, dict(SCOPE)) in text for piece in wanted for text in texts)
            case "file_exists":
                assert {name: (place.folder / name).exists() for name in wanted} == wanted
            case _:
                pytest.fail(f"can't map the expectation {key!r}")


def foreign_entries(top: Path, files_of_harness: str, kind: str) -> int:
    """Stage the example's capsule, and count what its workspace holds that is not the capsule's.

    On the way: the harness's own files, beside the workspace, can't be read.
    """
    examples = Path(__file__).parents[1] / "examples"
    capsule = next((examples / "capsules").glob("capsule-*"))
    attempt, gold = top / "attempt", examples / "dataset.json"
    workspace = stage(capsule.name, capsule, Level.HARD, attempt, kind, gold=gold).workspace
    sandbox = open_sandbox(SandboxSpec(kind=kind), workspace, owner_env=dict(os.environ))  # type: ignore[arg-type]
    try:
        place = Place(attempt, workspace.mounts[0].host, sandbox)
        for name in files_of_harness.replace(",", " ").split():
            secret = attempt / name / "secret.txt"
            secret.parent.mkdir()
            secret.write_text("SECRET", encoding="utf-8")
            for path in (str(secret), f"../{name}/secret.txt"):
                place.error("read_file", path=path)
                place.error("search_files", pattern="SECRET", path=path)
            if kind != "local":
                assert b"SECRET" not in sandbox.exec(["cat", str(secret)], timeout=20).stdout
        own = {entry.path for entry in shown(capsule, Level.HARD)} | {"results"}
        wanted = {capsule.name, *(f"{capsule.name}/{path}" for path in own)}
        lines = place.ok("list_dir", depth=20).splitlines()
        return len({line.split("  ")[0].removesuffix("/") for line in lines} ^ wanted)
    finally:
        sandbox.close()
