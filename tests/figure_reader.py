"""For tests of budgets: an agent that looks at figures for as long as it is let, with all but the models real."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from agent import Played, ScriptedModel, Stage
from gateway_bench import reply
from PIL import Image

from agentctl.agents.models.protocol import ModelSpec, RawReply, WireRequest
from agentctl.agents.models.reply import decode_reply
from agentctl.agents.models.route import Route
from agentctl.agents.pricing import Free, Pricing
from agentctl.agents.purse import Purse
from agentctl.agents.scaffold import Scaffold, load_scaffold
from agentctl.agents.spec import Limits
from agentctl.base.cancel import Cancel
from agentctl.benchmarks.corebench.task import ReportDeliverable

QUESTION = "fig Report the number of panels in which the line falls."
KEPT = "is kept for the report"
CLOSE = "closing takes"


class Sees:
    """A vision model."""

    kind = "script"

    def __init__(self) -> None:
        self.looks = 0

    def send(self, request: WireRequest, cancel: Cancel) -> RawReply:
        self.looks += 1
        return reply("The line falls." * 20, usage={"prompt_tokens": 800, "completion_tokens": 60})

    def close(self) -> None:
        pass


class FigureReader(ScriptedModel):
    """Asks about `figures`, `at_once` or one a step. Once told to close, or refused a look, it writes and finishes.

    `deaf`: it does not hear what it is told, and looks on until nothing is left to look at.
    """

    def __init__(self, figures: int, report: Path, *, at_once: bool = False, deaf: bool = False) -> None:
        super().__init__(())
        self._figures = [f"figure{n}.png" for n in range(figures)]
        self._report = report
        self._at_once = at_once
        self._deaf = deaf
        self._written = False

    @property
    def heard(self) -> list[str]:
        """All that the last request told besides replies."""
        return [str(message["content"]) for message in self.requests[-1] if message["role"] in ("user", "tool")]

    def send(self, request: WireRequest, cancel: Cancel) -> RawReply:
        self.requests.append([message.tree for message in request.messages])
        told = any(KEPT in text or CLOSE in text for text in self.heard)
        if self._figures and not self._written and (self._deaf or not told):
            count = len(self._figures) if self._at_once else 1
            looks = [self._figures.pop(0) for _ in range(count)]
            calls = [("query_vision_language_model", _look(path)) for path in looks]
        elif not self._written:
            self._written = True
            calls = [("write_file", {"path": str(self._report), "content": json.dumps({QUESTION: 7})})]
        else:
            calls = [("finish", {})]
        return _reply(calls, request)


def _look(path: str) -> dict[str, Any]:
    return {"prompt": "Does the line fall?", "input_image_paths": [path]}


def _reply(calls: list[tuple[str, dict[str, Any]]], request: WireRequest) -> RawReply:
    made = [
        {"id": f"a{n}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for n, (name, arguments) in enumerate(calls)
    ]
    message = {"role": "assistant", "content": "I go on.", "tool_calls": made}
    usage = {"prompt_tokens": len(request.body) // 4, "completion_tokens": 40 * len(calls)}
    return decode_reply({"choices": [{"message": message, "finish_reason": "tool_calls"}], "usage": usage})


def looking(**changes: Any) -> Scaffold:
    """The plain scaffold with eyes; with budget notes, unless `changes` say otherwise."""
    plain = load_scaffold("plain")
    tools = ("bash", "write_file", "vision", "finish")
    return plain.model_copy(update={"tools": tools, "budget_notes": True} | changes)


@dataclass
class Reading:
    """An attempt of a FigureReader's, and what came of it."""

    folder: Path
    figures: int
    vision: Pricing
    main: Pricing = field(default_factory=lambda: Free(name="m"))
    purse: Purse = field(default_factory=lambda: Purse(Decimal(4)))
    scaffold: Scaffold = field(default_factory=looking)
    limits: Limits = field(default_factory=Limits)
    work_seconds: Callable[[], float] = lambda: 0.0
    eyes: Sees = field(default_factory=Sees)

    def play(self, **manner: bool) -> Played:
        root = self.folder / "workspace"

        def draw(_: Cancel) -> None:
            for n in range(self.figures):
                Image.new("RGB", (32, 32), (n, n, n)).save(root / f"figure{n}.png")

        return Stage(
            self.folder,
            scaffold=self.scaffold,
            limits=self.limits,
            price=self.main,
            purse=self.purse,
            while_running=draw,
            helpers={"vision": Route(ModelSpec(name="eyes"), self.eyes, self.vision)},
            deliverable=lambda sandbox: ReportDeliverable(sandbox, [QUESTION]),
            work_seconds=self.work_seconds,
        ).play((), model=FigureReader(self.figures, root / "report.json", **manner))
