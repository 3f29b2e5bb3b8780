"""For tests of factors: the same replies played under two scaffolds, and the surfaces in which that differs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import gateway_bench
from agent import Stage

from agentctl.agents.factors import Surface
from agentctl.agents.models.protocol import ModelSpec, RawReply, WireRequest
from agentctl.agents.models.reply import decode_reply
from agentctl.agents.models.route import Route
from agentctl.agents.pricing import Free, Pricing
from agentctl.agents.prompting import prompt_of
from agentctl.agents.purse import Purse
from agentctl.agents.roles import with_parameters
from agentctl.agents.scaffold import Scaffold
from agentctl.agents.spec import Limits
from agentctl.agents.toolbox import make_tools
from agentctl.base.cancel import Cancel
from agentctl.base.messages import Result
from agentctl.benchmarks.corebench.task import ReportDeliverable
from agentctl.prompts.compose import Place, TaskText
from agentctl.tools.sandbox.protocol import Sandbox

QUESTIONS = ("Report the slope.", "fig Report the colour of the longest bar.")
RIGHT = {QUESTIONS[0]: 0.51, QUESTIONS[1]: "blue"}
PRICE = gateway_bench.price(input="0.000003", output="0.000015")
FREE = Free(name="scripted")  # where money counts, what is left of it depends on all that is sent
WIDE, NARROW = 128_000, 12_000  # tokens of the models' window: nothing, or the first step, is too long for it
_PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63f8cfc0000003010100c9fe92ef"
    "0000000049454e44ae426082"
)

Call = tuple[str, dict[str, Any]]  # a tool's name, and arguments

LOOK: Call = ("list_dir", {"path": "."})
LOOK_AS_AUTOGPT: Call = ("list_folder", {"folder": "."})
RUN: Call = ("bash", {"command": "ls"})
SEE: Call = ("query_vision_language_model", {"prompt": "What is it?", "input_image_paths": ["figure.png"]})
OPEN: Call = ("open_file", {"file_path": "notes.txt"})
CALLS = {
    "list_dir": LOOK,
    "autogpt/list_folder": LOOK_AS_AUTOGPT,
    "bash": RUN,
    "vision": SEE,
    "autogpt/open_file": OPEN,
}


@dataclass(frozen=True)
class Turn:
    """A reply: a call, or words alone. `report` is what the workspace holds as report from then on."""

    call: Call | None
    words: str = "I go on."
    report: object = None


def look(scaffold: Scaffold) -> Turn:
    return Turn(next(CALLS[id] for id in ("list_dir", "autogpt/list_folder", "bash") if id in scaffold.tools))


def finish(scaffold: Scaffold, report: object) -> Turn:
    return Turn(("finish", {"reason": "done"} if "autogpt/finish" in scaffold.tools else {}), report=report)


def turns(scaffold: Scaffold) -> list[Turn]:
    """Replies that bring every factor of `scaffold` into play: long words, the same again and again, nothing to run,
    and reports to finish with, of which the first two are wrong."""
    again = look(scaffold)
    silent = [Turn(None, words="I wonder.")] * min(3, scaffold.idle_replies - 1)
    return [
        *[replace(again, words="I think aloud. " * 900)] * 3,
        *[again] * 2,
        Turn(OPEN),
        again,
        Turn(SEE),
        again,
        *silent,
        again,
        finish(scaffold, {"other": 1}),
        finish(scaffold, {**RIGHT, QUESTIONS[0]: None}),
        *[finish(scaffold, RIGHT)] * 2,
        *[again] * 9,  # where finishing goes another way
    ]


class Answering:
    """Plays all roles: the given turns as main, in the form that the arm's protocol wants. Keeps what it was sent."""

    kind = "script"

    def __init__(self, script: Sequence[Turn], arm: Scaffold, workspace: Path) -> None:
        self._script = script
        self._arm = arm
        self._workspace = workspace
        self.main: list[WireRequest] = []
        self.helpers: list[tuple[int, WireRequest]] = []  # with the number of requests of main's before

    @property
    def at_its_end(self) -> bool:
        return len(self.main) >= len(self._script)

    def send(self, request: WireRequest, cancel: Cancel) -> RawReply:
        if request.role != "main":
            self.helpers.append((len(self.main), request))
            return _reply(request, "YES" if '": null' in str(request.messages[-1].tree["content"]) else "NO, one line.")
        self.main.append(request)
        assert len(self.main) <= len(self._script), "the loop asked more often than the script answers"
        turn = self._script[len(self.main) - 1]
        if turn.report is not None:
            (self._workspace / "report.json").write_text(json.dumps(turn.report), encoding="utf-8")
        return self._encoded(request, turn)

    def _encoded(self, request: WireRequest, turn: Turn) -> RawReply:
        if self._arm.protocol == "native":
            return _reply(request, turn.words, *([turn.call] if turn.call else []))
        if turn.call is None:
            return _reply(request, turn.words)
        name, arguments = turn.call
        if self._arm.protocol == "thoughts":
            thoughts = {"thoughts": {"text": turn.words}, "use_tool": {"name": name, "arguments": arguments}}
            return _reply(request, json.dumps(thoughts))
        return _reply(request, f"{turn.words}\n```json\n{json.dumps({'name': name, 'arguments': arguments})}\n```")

    def close(self) -> None:
        pass


def _reply(request: WireRequest, text: str, *calls: tuple[str, dict[str, Any]]) -> RawReply:
    told = [
        {"id": "a", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for name, arguments in calls
    ]
    message = {"role": "assistant", "content": text, **({"tool_calls": told} if told else {})}
    prompt = len(request.body) // 4
    usage = {"prompt_tokens": prompt, "completion_tokens": 20, "total_tokens": prompt + 20}
    return decode_reply({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage})


@dataclass
class Arm:
    """One arm, played."""

    requests: list[WireRequest]
    helpers: list[tuple[int, WireRequest]]
    finishes: list[tuple[int, Result]]  # with the number of the step
    ending: str
    steps: int = field(init=False)

    def __post_init__(self) -> None:
        self.steps = len(self.requests)


def play(
    arm: Scaffold,
    script: Sequence[Turn],
    sandbox: Sandbox,
    folder: Path,
    *,
    level: str = "hard",
    window: int = WIDE,
    price: Pricing = FREE,
) -> Arm:
    """Play `script` under `arm`, in a workspace that is laid out anew."""
    workspace = sandbox.workspace.mounts[0].host
    for path in workspace.rglob("*"):
        if path.is_file():
            path.unlink()
    (workspace / "notes.txt").write_text("kept open", encoding="utf-8")
    (workspace / "figure.png").write_bytes(_PNG)
    tools = make_tools(arm, Limits())
    task = TaskText(benchmark="corebench", level=level, variables=_variables(sandbox))
    prompt = prompt_of(arm, tools, task, Place(network="registries", apt=True))
    model = Answering(script, arm, workspace)
    spec = ModelSpec(name="scripted", output_limit=2_000)
    helpers = {
        role: Route(with_parameters(spec, arm.roles, role), model, price, context_window=window)
        for role in ("fast", "vision")
    }
    stage = Stage(
        folder,
        scaffold=arm,
        limits=Limits(command_seconds=20, steps=len(script)),
        window=window,
        price=price,
        spec=spec,
        helpers=helpers,
        deliverable=lambda sandbox: ReportDeliverable(sandbox, QUESTIONS),
        prompt=(prompt.system_text, prompt.task),
        sandbox=sandbox,
        purse=Purse(Decimal(100)),
    )
    played = stage.play((), model)  # type: ignore[arg-type]
    finishes = [
        (step.index, result)
        for step in played.state.steps
        for call, result in zip(step.calls, step.results, strict=True)
        if call.name == "finish"
    ]
    return Arm(model.main, model.helpers, finishes, str(played.ending.end))


def _variables(sandbox: Sandbox) -> dict[str, str]:
    home = sandbox.workspace.start
    places = {name: f"{home}/{name}" for name in ("code", "data", "results")}
    told = {"task_prompt": "Run it.", "questions": "\n".join(QUESTIONS), "also": "", "finish": "Call finish."}
    return {**places, **told, "capsule": home, "report": f"{home}/report.json", "reproducing": f"{home}/README"}


def touched(a: Arm, b: Arm) -> set[Surface]:
    """The surfaces in which two arms that got the same replies differ.

    Where a call of finish gives something else, what follows is counted as its consequence.
    """
    until = min(a.steps, b.steps)
    found: set[Surface] = set()
    for (step, one), (other_step, other) in zip(a.finishes, b.finishes, strict=False):
        if step == other_step and (one.parts, one.status) != (other.parts, other.status):
            found.add("finish")
            until = step
            break
    for mine, theirs in zip(a.requests[:until], b.requests[:until], strict=True):
        found.update(_of_request(mine, theirs))
    same_end = "finish" not in found and a.steps == b.steps
    asked = until + 1 if same_end else until  # after the last request of both
    if _helpers(a, asked) != _helpers(b, asked):
        found.add("helpers")
    if "finish" not in found and (a.steps, a.ending) != (b.steps, b.ending):
        found.add("end")
    return found


def _of_request(a: WireRequest, b: WireRequest) -> Iterator[Surface]:
    mine, theirs = ([message.body for message in request.messages] for request in (a, b))
    if mine[0] != theirs[0]:
        yield "system"
    if mine[1] != theirs[1]:
        yield "task"
    if mine[2:] != theirs[2:]:
        yield "history"
    if [tool.body for tool in a.tools] != [tool.body for tool in b.tools]:
        yield "tools"


def _helpers(arm: Arm, until: int) -> list[tuple[object, ...]]:
    """Which helpers are asked, when, and how; what they are told of the past is no part of it."""
    return [
        (before, request.role, request.model, request.output_limit) for before, request in arm.helpers if before < until
    ]
