"""What a person sees while an attempt runs, event by event."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Iterator
from decimal import Decimal

import pytest

from agentctl.agents.ends import End
from agentctl.agents.events import Carried, Ended, Event, Failed, MessageAdded, Ran, Requested
from agentctl.agents.models.journal import RequestSent, SendFailed
from agentctl.agents.models.protocol import Fault
from agentctl.agents.protocols import PROTOCOLS
from agentctl.base.messages import Call, Message, Role, Status, Text
from agentctl.cli import moving
from agentctl.cli.live import Live
from agentctl.cli.words import columns


def said(*calls: Call, text: str = "") -> Event:
    parts = (*([Text(text=text)] if text else []), *calls)
    return MessageAdded(n=1, message=Message(role=Role.ASSISTANT, parts=parts))


def call(number: int, name: str = "bash", **arguments: str) -> Call:
    return Call(id=f"c1.{number}", name=name, arguments=dict(arguments))


def ran(number: int, name: str = "bash", **more: object) -> Event:
    return Ran.model_validate({"call": f"c1.{number}", "name": name, "status": Status.OK, "seconds": 0.5} | more)


SENT = RequestSent(
    n=1, role="main", messages=(), tools=(), output_limit=1, digest="", bound=0, input_bound=0, body_bytes=0
)
NEXT = Requested(sent=SENT)
OVER = Failed(failed=SendFailed(n=1, role="main", fault=Fault.OVER, words="s.json has no reply 2"))


def lines(*events: Event, protocol: str = "native", width: int = 60) -> list[str]:
    out = io.StringIO()
    with Live(out, header="", width=width, colour=False, protocol=PROTOCOLS[protocol]) as live:
        for event in events:
            live(event)
    assert all(columns(line) <= width for line in out.getvalue().splitlines())
    return [" ".join(line.split()) for line in out.getvalue().splitlines()]


def test_a_finish_that_is_put_off_is_not_shown_as_done() -> None:
    both = said(call(1, "finish", summary="all done"), call(2, "finish"))
    told = lines(both, ran(1, "finish"), ran(2, "finish"), Ended(end=End.FINISHED))
    assert told == ["1 ↺ finish put off: all done 0.5 s $0", "1 ✓ finish 0.5 s $0", "= finished"]


@pytest.mark.parametrize("after", [NEXT, Ended(end=End.STEPS)])
def test_a_finish_after_which_the_work_goes_on_was_put_off(after: Event) -> None:
    assert lines(said(call(1, "finish")), ran(1, "finish"), after)[0] == "1 ↺ finish put off: 0.5 s $0"


def test_a_refused_finish_failed() -> None:
    assert lines(said(call(1, "finish")), ran(1, "finish", status=Status.ERROR), NEXT)[0] == "1 ✗ finish 0.5 s $0"


@pytest.mark.parametrize(
    ("protocol", "text"),
    [
        ("plain", 'Look.\n```json\n{"name": "bash", "arguments": {"command": "ls /code"}}\n```'),
        (
            "thoughts",
            '{"thoughts": {"text": "Look."}, "use_tool": {"name": "bash", "arguments": {"command": "ls /code"}}}',
        ),
    ],
)
def test_calls_in_the_text_of_a_reply_show_their_arguments(protocol: str, text: str) -> None:
    assert lines(said(text=text), ran(1), protocol=protocol) == ["1 Look.", "1 ✓ bash ls /code 0.5 s $0"]


def test_arguments_that_can_not_be_read_are_shown_as_written() -> None:
    text = '```json\n{"name": "bash", "arguments": "ls"}\n```'
    assert '"ls"' in lines(said(text=text), ran(1, status=Status.ERROR), protocol="plain")[-1]


def test_the_end_of_a_script_is_told_once() -> None:
    assert lines(OVER, Ended(end=End.SCRIPT, detail="s.json has no reply 2")) == ["= script: s.json has no reply 2"]


def test_what_is_run_again_is_said() -> None:
    carried = Carried(record="runs/a", spent=Decimal("0.5"), uncertain=Decimal(0))
    told = lines(carried, said(call(1, command="make")), ran(1), NEXT, NEXT)
    again, *rest = told
    assert again.startswith("> what runs/a ran is run again, to come to where it")
    assert rest == ["1 ✓ bash make 0.5 s $0.5000", "> from here on the model is asked"]


# The line that moves


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moving, "SOON", 0.0)
    monkeypatch.setattr(moving, "STEP", 0.01)


class Terminal(io.StringIO):
    """What a terminal would show."""

    def shown(self) -> list[str]:
        text = re.sub(r"[^\n]*\r\x1b\[K", "", self.getvalue())
        return [" ".join(line.split()) for line in text.split("\n")]

    def wait_for(self, words: str) -> None:
        end = time.monotonic() + 20
        while words not in self.shown()[-1]:
            assert time.monotonic() < end, self.shown()
            time.sleep(0.01)


@pytest.fixture
def out() -> Terminal:
    return Terminal()


@pytest.fixture
def live(soon: None, out: Terminal) -> Iterator[Live]:
    with Live(out, header="", width=60, colour=False, protocol=PROTOCOLS["native"], moving=True) as made:
        yield made


def test_what_runs_is_shown_until_it_is_over(live: Live, out: Terminal) -> None:
    live(NEXT)
    out.wait_for("… main model, 0.0 s")
    live(said(call(1, command="make"), call(2, command="make test")))
    out.wait_for("1 … bash make 0.0 s")
    live(ran(1))
    out.wait_for("1 … bash make test 0.")
    assert out.shown()[0] == "1 ✓ bash make 0.5 s $0"
    live(ran(2))
    assert out.shown()[1:] == ["1 ✓ bash make test 0.5 s $0", ""]
    live(Ended(end=End.STEPS))
    out.wait_for("… keeping what is there")
    live.__exit__()
    assert out.shown()[2:] == ["= steps", ""]


def test_a_line_fits_the_terminal(live: Live, out: Terminal) -> None:
    live(said(call(1, command="漢字 " * 60)))
    out.wait_for("1 … bash")
    assert all(columns(piece) <= 60 for piece in out.getvalue().split("\r\x1b[K"))


def test_nothing_moves_without_a_terminal(soon: None) -> None:
    assert lines(said(call(1, command="make"))) == []
