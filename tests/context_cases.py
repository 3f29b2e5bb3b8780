"""For tests: how the shared cases of condensing and of images are played."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from agent import Played, ScriptedModel, Stage
from case_fields import Fields, ends_of
from history_bench import PREFIX, Bench, Model, check_legal, png, prose, step, text_of, tokens

from agentctl.agents.ends import End
from agentctl.agents.history.conversation import Conversation
from agentctl.agents.history.shorter import Telling, View, shorter, summed_up
from agentctl.agents.history.sizes import Sizes
from agentctl.agents.models.protocol import RawReply, WireRequest
from agentctl.agents.models.reply import decode_reply
from agentctl.agents.protocols import PROTOCOLS
from agentctl.agents.scaffold import load_scaffold
from agentctl.base.cancel import Cancel
from agentctl.base.messages import Message, Role
from agentctl.tools.tool import Arguments, ToolContext, ToolResult

NUMBERS = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "eight": 8, "ten": 10}
DONE = {"message": {"role": "assistant", "content": "done"}, "finish_reason": "stop"}


def call_turn(name: str, arguments: str) -> dict[str, Any]:
    call = {"id": "a", "type": "function", "function": {"name": name, "arguments": arguments}}
    return {"message": {"role": "assistant", "content": None, "tool_calls": [call]}, "finish_reason": "tool_calls"}


class Talker(ScriptedModel):
    """Calls `flood` so many times a turn, says that it is done after `turns`, and sums up as told."""

    def __init__(self, turns: int, calls: int, summary: Callable[[WireRequest], str]) -> None:
        super().__init__([{}] * turns)
        self.roles: list[str] = []
        self.sent: list[WireRequest] = []
        self._calls = calls
        self._summary = summary

    def send(self, request: WireRequest, cancel: Cancel) -> RawReply:
        self.sent.append(request)
        self.roles.append(request.role)
        if request.role == "summary":
            return said(self._summary(request))
        self.requests.append([message.tree for message in request.messages])
        if self.at_its_end:
            return said("done")
        calls = [
            {"id": f"x{n}", "type": "function", "function": {"name": "flood", "arguments": "{}"}}
            for n in range(self._calls)
        ]
        message = {"role": "assistant", "content": f"Step {len(self.requests)}.", "tool_calls": calls}
        return decode_reply({"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]})


def said(text: str) -> RawReply:
    message = {"role": "assistant", "content": text}
    return decode_reply({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})


class Flood:
    """A tool that gives another text of some length at each call."""

    name = "flood"
    description = "Gives a long text."
    arguments = Arguments

    def __init__(self, characters: int) -> None:
        self._characters = characters
        self._given = 0

    def run(self, arguments: Arguments, context: ToolContext) -> ToolResult:
        self._given += 1
        return ToolResult.of(prose(self._characters, self._given))

    def close(self) -> None:
        pass


def play(folder: Path, window: int, model: Talker, characters: int) -> Played:
    """A whole run with a history that condenses."""
    scaffold = load_scaffold("plain").model_copy(update={"history": "condense"})
    stage = Stage(folder, scaffold=scaffold, window=window, extra_tools=[Flood(characters)])
    return stage.play([], model=model)


def check_all_cuts(given: Fields, exact: Fields, folder: Path) -> None:
    """CX-01: at every cut point, in every protocol."""
    shape = re.search(r"(\d+) rounds of call\+result(?: \((\w+) calls per round\))?", given["messages"])
    assert shape, f"can't map {given['messages']!r}"
    assert given["action"] == "shorten at every possible cut point" and exact["check_all_cut_points"] is True
    assert "exactly one tool message, directly after" in exact["invariant"]
    rounds, calls = int(shape[1]), NUMBERS[shape[2] or "one"]
    for protocol in PROTOCOLS:
        (folder / protocol).mkdir()
        bench = Bench(folder / protocol, protocol=protocol, window=given["window_tokens"])
        bench.add(*[step(n, calls=calls, characters=600, thinking=n % 2 == 0) for n in range(1, rounds + 1)])
        assert bench.condensed
        check_legal(bench.sent(), protocol)
        for request in bench.model.received:
            check_legal([message.tree for message in request.messages[:-1]], protocol)
        conversation = Conversation(PROTOCOLS[protocol], bench.transcript)
        conversation.keep(bench.state)
        telling, sizes = Telling(conversation), Sizes(())
        for first in range(1, rounds + 2):
            view = summed_up(View(), "In short.", first)
            check_legal([message.tree for message in telling.messages(view)], protocol)
        for target in range(0, sizes.of(telling.messages(View())), 60):
            check_legal([each.tree for each in telling.messages(shorter(View(), target, telling, sizes))], protocol)


def check_summary_fits(given: Fields, exact: Fields, folder: Path) -> None:
    """CX-03: through a whole run, and where all of it is there at once."""
    window, whole, most = given["window_tokens"], given["history_chars"], exact["every_request_tokens_lt"]
    calls, turns = 40, -(-whole // (40 * (window // 8)))
    model = Talker(turns + 1, calls, lambda request: "All of it in short.")
    played = play(folder / "run", window, model, window // 8)
    assert played.ending.end not in ends_of(exact["task_status_not"])
    assert played.ending.end is End.FINISHED
    assert "summary" in model.roles
    for request in model.sent:
        assert tokens([message.tree for message in request.messages]) < most
    (folder / "at once").mkdir()
    bench = Bench(folder / "at once", window=window)
    steps = 80
    bench.state.steps.extend(step(n, characters=whole // steps) for n in range(1, steps + 1))
    bench.history.settle(bench.state)
    sent = [[message.tree for message in request.messages] for request in bench.model.received]
    assert sent
    for messages in (*sent, bench.sent()):
        assert tokens(messages) < most


def check_no_loop(given: Fields, exact: Fields, folder: Path) -> None:
    """CX-04: what sums up gives back as much as it got, or more."""
    times = {"as many": 1, "twice as many": 2}
    amount = next((n for words, n in times.items() if given["summarizer_returns"].startswith(words)), None)
    assert amount, f"can't map {given['summarizer_returns']!r}"

    def echo(request: WireRequest) -> str:
        return text_of([message.tree for message in request.messages]) * amount

    model = Talker(40, 1, echo)
    played = play(folder, given["window_tokens"], model, 1_500)
    assert played.ending.end is End.FINISHED
    runs = [len(list(group)) for role, group in groupby(model.roles) if role == "summary"]
    assert max(runs, default=0) <= exact["max_consecutive_summaries"]
    for request in model.sent:
        assert tokens([message.tree for message in request.messages]) < given["window_tokens"]


def check_replaced(given: Fields, exact: Fields, folder: Path) -> None:
    """CX-05: what sums up repeats the summary before and adds a line."""
    assert given["summarizer_returns"] == "previous summary verbatim plus one line"
    assert exact["max_summary_chars"] == "configured bound" and exact["context_after_lt_before"] is True

    def repeat(request: WireRequest) -> str:
        before = re.search(r"You summed them up:\n\n(.*)", str(request.messages[2].tree["content"]), re.DOTALL)
        return (before[1] if before else "What was done.") + "\n" + prose(700, len(str(before)))

    bench = Bench(folder, Model(summary=repeat))
    n = 0
    while len(bench.condensed) < given["rounds"]:
        n += 1
        bench.add(step(n, characters=3_000))
        assert n < 40 * given["rounds"]
        text = text_of(bench.sent())
        assert text.count("You summed them up") == min(1, len(bench.condensed))
        if bench.condensed:
            summary = str(bench.sent()[2]["content"]).partition("up:\n\n")[2]
            assert len(summary) <= bench.history.longest_summary
    assert all(done.after < done.before for done in bench.condensed)


def check_task_kept(given: Fields, exact: Fields, folder: Path) -> None:
    """CX-06: an image in the task, whose encoding would fill the window if its letters were counted."""
    assert given["messages"] == ["system", "task with question list and one image"]
    letters = int(given["estimate_before_fix"])
    bench = Bench(folder, window=given["window_tokens"])
    image = png(bench.record, letters * 3 // 4 * 4, 900, 700)  # four letters would be one token
    task = Message(role=Role.USER, parts=(*PREFIX[1].parts, image))
    bench.state.prefix = (PREFIX[0], task)
    bench.add(*[step(n, characters=400) for n in range(1, 4)])
    content = bench.sent()[1]["content"]
    assert (PREFIX[1].text() in str(content)) is exact["task_text_present"]
    assert any(part["type"] == "image_url" for part in content) is exact["image_present"]
    assert len(bench.model.received) == exact["summaries"]


def check_image_tokens(given: Fields, exact: Fields, folder: Path) -> None:
    """CX-10, CX-11: what an image is counted as, alone and many together, and what stays of them."""
    images, megabytes = _images(given["messages"])
    limit = given.get("provider_body_limit_mb", 20)
    bench = Bench(folder, window=given["window_tokens"], body_limit=limit * 1_000_000)
    for n in range(1, images + 1):
        image = png(bench.record, int(megabytes * 1_000_000), 640 + n, 480)
        bench.add(step(n, characters=100, images=[image]))
        bench.model.main = [said("ok")] * n
        bench.asker.ask("main", bench.history.render(bench.state), ())
        body = bench.model.of("main")[-1].body
        assert len(body) <= exact.get("max_request_mb", limit) * 1_000_000
    sent = bench.model.of("main")[-1].messages
    counted = sum(message.image_tokens for message in sent)
    low, high = exact.get("image_tokens_between", [0, given["window_tokens"]])
    assert low <= counted <= high
    assert counted > exact.get("image_tokens_gt", 0)
    assert len(bench.model.of("summary")) == exact.get("summaries", 0)
    assert ("no longer shown" in text_of([message.tree for message in sent])) is (images * megabytes * 4 / 3 > limit)
    assert sent[-1].images  # the newest is never the one to go


def _images(told: str | Sequence[str]) -> tuple[int, float]:
    """How many images a case tells of, and of how many MB each."""
    words = told if isinstance(told, str) else " ".join(told)
    found = re.search(r"(\d+|one) (?:images? of )?(\d+(?:\.\d+)?) MB", words)
    if not found:
        pytest.fail(f"this test can't map the messages {told!r}")
    return NUMBERS.get(found[1]) or int(found[1]), float(found[2])


Check = Callable[[Fields, Fields, Path], None]
CHECKS: Mapping[str, Check] = {
    "summary-too-big": check_summary_fits,
    "summary-keeps-task": check_task_kept,
    "image-tokens": check_image_tokens,
}


def check_of(kind: str, given: Mapping[str, Any]) -> Check | None:
    """What plays a case of `kind`; None where nothing here does."""
    if kind == "orphan-result" and "every" in str(given.get("action")):
        return check_all_cuts
    if kind == "summary-loop":
        return check_replaced if "rounds" in given else check_no_loop
    return CHECKS.get(kind)
