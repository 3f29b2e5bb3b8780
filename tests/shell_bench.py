"""Runs entries of cases/shell.json's form against the shell tool: every field is mapped, or the test fails."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from case_fields import SCOPE, inside, several, skip_without
from no_deliverable import NoDeliverable, keeps_no_image

from agentctl.base.cancel import Cancel
from agentctl.base.messages import Status, Text
from agentctl.tools.sandbox.make import open_sandbox
from agentctl.tools.sandbox.procs import command_of
from agentctl.tools.sandbox.protocol import Guarantee, Mount, Sandbox, SandboxError, SandboxSpec, Workspace
from agentctl.tools.shell import Shell
from agentctl.tools.shell.tool import NO_OUTPUT, BashArguments
from agentctl.tools.tool import ToolContext, ToolResult

KINDS = ("bubblewrap", "local")
# Many of these tests wait for real limits: the second kind of sandbox is left out of the plain run.
SLOWER_KINDS = (KINDS[0], *(pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS[1:]))


@dataclass
class Bench:
    """A sandbox with one shell in it."""

    sandbox: Sandbox
    context: ToolContext
    shell: Shell

    def run(self, command: str, timeout: float | None = None) -> ToolResult:
        return self.shell.run(BashArguments(command=command, timeout=timeout), self.context)

    def out(self, command: str, timeout: float | None = 20) -> str:
        """The output alone, outer blank space removed."""
        return output(self.run(command, timeout))

    def processes(self) -> list[str]:
        """Their command lines."""
        return sorted(filter(None, (command_of(process.pid) for process in self.sandbox.processes())))


def output(result: ToolResult) -> str:
    part = result.parts[0]
    assert isinstance(part, Text)
    return "" if part.text == NO_OUTPUT else part.text.strip()


def notice(result: ToolResult) -> str:
    assert len(result.parts) <= 2
    return "".join(part.text for part in result.parts[1:] if isinstance(part, Text))


@contextmanager
def bench(
    folder: Path, kind: str = "bubblewrap", sandbox: Mapping[str, Any] | None = None, **shell: Any
) -> Iterator[Bench]:
    """`sandbox` are fields of its spec, `shell` arguments of the tool."""
    work, scratch = folder / "work", folder / "scratch"
    work.mkdir()
    scratch.mkdir()
    inside = str(work) if kind == "local" else "/workspace"
    spec = SandboxSpec.model_validate({"kind": kind, **(sandbox or {})})
    workspace = Workspace(mounts=(Mount(inside=inside, host=work),), scratch=scratch)
    box = open_sandbox(spec, workspace, owner_env=os.environ)
    tool = Shell(**{"seconds": 60, **shell})
    try:
        made = Bench(box, _context(box, folder), tool)
        yield made
    finally:
        tool.close()
        box.close()


def _context(sandbox: Sandbox, folder: Path) -> ToolContext:
    def ask(*_: object) -> str:
        raise AssertionError("a shell asks no model")

    return ToolContext(
        sandbox=sandbox,
        deliverable=NoDeliverable(),
        cancel=Cancel(),
        outputs=folder / "outputs",
        ask=ask,
        keep_image=keeps_no_image,
        emit=lambda kind, text: None,
        seconds_left=lambda: 1e6,
    )


# --- cases ---

Check = Callable[[Any, ToolResult, float], bool]

STEP_CHECKS: Mapping[str, Check] = {
    "exit_code": lambda want, result, _: result.exit_code == want,
    "exit_code_not": lambda want, result, _: result.exit_code != want,
    "output": lambda want, result, _: output(result) == want,
    "output_python": lambda want, result, _: output(result) == eval(want, dict(SCOPE)),
    "first_line": lambda want, result, _: output(result).split("\n")[0] == want,
    "last_line": lambda want, result, _: output(result).split("\n")[-1] == want,
    "line_count": lambda want, result, _: len(output(result).split("\n")) == want,
    "output_contains": lambda want, result, _: want in output(result),
    "output_contains_all": lambda want, result, _: all(text in output(result) for text in want),
    "output_contains_any": lambda want, result, _: any(text in output(result) for text in want),
    "not_contains": lambda want, result, _: not any(text in result.text() for text in several(want)),
    "no_bytes": lambda want, result, _: not any(text in result.text() for text in several(want)),
    "timed_out": lambda want, result, _: (result.status is Status.TIMEOUT) == want,
    "min_wall_s": lambda want, _, took: took >= want,
    "max_wall_s": lambda want, _, took: took <= want,
    "max_result_chars": lambda want, result, _: len(result.text()) <= want,
    "truncation_notice": lambda want, result, _: ("output cut" in notice(result)) == want,
    "tool_error": lambda want, result, _: (result.status is Status.ERROR) == want,
}
CASE_CHECKS = {
    "steps",
    "no_child_left_after_close",
    "no_child_left",
    "no_process_named",
    "max_extra_rss_mb",
    "max_failed_calls_before_action",
    "task_status",
}
INPUTS = {"steps", "generate", "setup", "setup_python", "files", "host_env", "needs", "only_inside", "then"}
STEP_INPUTS = {"cmd", "cmd_python", "timeout_s"}


def kinds(case: dict[str, Any]) -> tuple[str, ...]:
    """The sandboxes that a case is for."""
    return KINDS[:1] if "only_inside" in case["input"] else KINDS


def run_case(case: dict[str, Any], kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given, exact = case["input"], case["expect"].get("exact", {})
    _only_known(given, INPUTS, "input")
    _only_known(exact, CASE_CHECKS, "expect.exact")
    skip_without(given.get("needs", []))
    for name, value in given.get("host_env", {}).items():
        monkeypatch.setenv(name, value)
    with bench(folder, kind) as made:
        if "process limit" in given.get("only_inside", "") and Guarantee.PROCESS_LIMIT not in made.sandbox.holds:
            pytest.skip("this machine lets the sandbox set no process limit")
        _prepare(made, given, folder)
        before, memory = made.processes(), _memory("VmRSS")
        _run_steps(made, [*given.get("steps", []), *given.get("generate", [])], exact.get("steps", []))
        if "max_extra_rss_mb" in exact:
            assert _memory("VmHWM") - memory <= exact["max_extra_rss_mb"]
        if exact.get("no_child_left"):
            assert made.processes() == before
        for name in exact.get("no_process_named", []):
            assert not [command for command in made.processes() if name in map(os.path.basename, command.split())]
        if "then" in given:
            _then(made, given["then"], exact)
        made.shell.close()
        if exact.get("no_child_left_after_close"):
            assert made.processes() == []


def _only_known(given: dict[str, Any], known: set[str] | Mapping[str, object], where: str) -> None:
    if unknown := sorted(set(given) - set(known)):
        pytest.fail(f"this test can't map {where}: {', '.join(unknown)}")


def _prepare(made: Bench, given: dict[str, Any], folder: Path) -> None:
    for name, text in given.get("files", {}).items():
        made.sandbox.write(name, text.encode())
    made.run(f"export W={shlex.quote(made.sandbox.workspace.start)}")
    if "setup" in given:
        made.run(given["setup"])
    if "setup_python" in given:
        with inside(folder / "work"):
            exec(given["setup_python"], dict(SCOPE))
    Path("/proc/self/clear_refs").write_text("5")  # begins VmHWM anew


def _run_steps(made: Bench, steps: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    assert len(expected) <= len(steps), "more expectations than steps"
    for number, step in enumerate(steps):
        _only_known(step, STEP_INPUTS, f"input.steps[{number}]")
        command = eval(step["cmd_python"], dict(SCOPE)) if "cmd_python" in step else step["cmd"]
        began = time.monotonic()
        result = made.run(command, step.get("timeout_s"))
        took = time.monotonic() - began
        wanted = expected[number] if number < len(expected) else {}
        _only_known(wanted, STEP_CHECKS, f"expect.exact.steps[{number}]")
        for key, value in wanted.items():
            assert STEP_CHECKS[key](value, result, took), (
                f"step {number}: {key} is not {value!r} after {took:.1f} s: {result.status} {result.exit_code} "
                f"{result.text()[:2000]!r}"
            )


def _then(made: Bench, what: str, exact: dict[str, Any]) -> None:
    """The one thing that may happen from outside: the sandbox ends for good."""
    if "unusable" not in what:
        pytest.fail(f"this test can't map input.then: {what}")
    if exact["task_status"] not in ("infrastructure_error", "infrastructure_error_or_restarted"):
        pytest.fail(f"this test can't map expect.exact.task_status: {exact['task_status']}")
    made.sandbox.close()
    for _ in range(exact["max_failed_calls_before_action"]):
        try:
            made.run("echo still there", 5)
        except SandboxError:
            return
    pytest.fail("the dead sandbox was not noticed")


def _memory(name: str) -> float:
    """A size of this process in MB, as /proc/self/status has it."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) / 1024
    raise AssertionError(name)
