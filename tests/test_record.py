"""The record: what is written is whole, what is read back is what was written, and secrets are not in it."""

from __future__ import annotations

import errno
import os
from base64 import b64encode
from decimal import Decimal
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentctl.agents.ends import End
from agentctl.agents.events import Ended, Event, MessageAdded, Note, Ran, Requested, decode, encode
from agentctl.agents.models.journal import RequestSent
from agentctl.agents.reading import RecordReader, read_events
from agentctl.agents.record import Record, RecordFull
from agentctl.agents.secrets import Secrets
from agentctl.agents.transcript import Transcript
from agentctl.base.errors import InputError
from agentctl.base.messages import Call, ImageRef, Message, Opaque, Result, Role, Status, Text

ANY_TEXT = st.text(st.characters(codec=None), max_size=60)  # lone surrogates too


def new_record(folder: Path, secrets: Secrets | None = None) -> Record:
    return Record(folder, b"{}", secrets or Secrets({}), now=lambda: 0.0)


def request(n: int) -> RequestSent:
    return RequestSent(
        n=n, role="main", messages=((1, 2),), tools=("bash",), output_limit=10, digest="d", bound=Decimal("0.1"),
        input_bound=5, body_bytes=7,
    )  # fmt: skip


EVENTS: list[Event] = [
    MessageAdded(n=1, message=Message(role=Role.USER, parts=(Text(text="é\n\u2028"),))),
    MessageAdded(
        n=2,
        message=Message(
            role=Role.ASSISTANT,
            parts=(
                Opaque(provider="x", field="thinking", data={"signature": "s==", "n": [1, None]}),
                Call(id="c1.1", name="bash", arguments=None, raw='{"a', error="cut"),
            ),
            finish="length",
        ),
    ),
    MessageAdded(
        n=3,
        message=Message(role=Role.TOOL, parts=(Result(call_id="c1.1", status=Status.ERROR, parts=(Text(text="no"),)),)),
    ),
    Requested(sent=request(1)),
    Ran(call="c1.1", name="bash", status=Status.TIMEOUT, seconds=1.5, exit_code=137),
    Note(kind="shell", text="restarted"),
    Ended(end=End.COST, detail="enough"),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.t)
def test_a_line_holds_its_event(event: Event) -> None:
    line = encode(event)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert decode(line) == event


@given(st.binary(max_size=200))
def test_any_line_is_an_event_or_an_error(line: bytes) -> None:
    try:
        decode(line)
    except ValueError as error:
        assert str(error)


@given(st.binary(max_size=300), st.booleans())
@settings(max_examples=60)
def test_any_file_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, data: bytes, after_events: bool) -> None:
    folder = tmp_path_factory.mktemp("record")
    (folder / "events.jsonl").write_bytes((encode(EVENTS[0]) if after_events else b"") + data)
    try:
        assert all(event.t for event in read_events(folder))
    except InputError as error:
        assert "line" in str(error)


@pytest.mark.parametrize("missing", range(1, 40, 7))
def test_a_last_line_cut_in_half_is_left_out(missing: int, tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_bytes(b"".join(encode(event) for event in EVENTS)[:-missing])
    assert list(read_events(tmp_path)) == EVENTS[:-1]


def test_a_bad_line_in_the_middle_is_named(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_bytes(encode(EVENTS[0]) + b"{}\n" + encode(EVENTS[1]))
    with pytest.raises(InputError, match=r"events\.jsonl: line 2 is no event"):
        list(read_events(tmp_path))


def test_an_existing_folder_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(InputError, match="exists already"):
        new_record(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_the_result_is_written_once(tmp_path: Path) -> None:
    record = new_record(tmp_path / "r")
    record.finish(b'{"first": 1}')
    with pytest.raises(Exception, match="already"):
        record.finish(b"{}")
    record.close()
    assert (tmp_path / "r" / "result.json").read_bytes() == b'{"first": 1}'
    assert not (tmp_path / "r" / ".aside").exists()


class FullDisk:
    """Stands for write(2) on a disk that takes `left` bytes more."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.write = os.write

    def __call__(self, fd: int, data: bytes) -> int:
        if self.left <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken = self.write(fd, bytes(data[: self.left]))
        self.left -= taken
        return taken


def test_a_full_disk_leaves_whole_lines_and_room_for_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = new_record(tmp_path / "r")
    record.emit(EVENTS[0])
    disk = FullDisk(len(encode(EVENTS[1])) // 2)
    monkeypatch.setattr(os, "write", disk)
    aside = tmp_path / "r" / ".aside"
    assert aside.stat().st_blocks * 512 >= 1 << 20

    def let_go(path: Path, missing_ok: bool = False) -> None:
        if path == aside:
            disk.left = 1 << 20
        os.unlink(path)  # noqa: PTH108

    monkeypatch.setattr(Path, "unlink", let_go)
    record.emit(EVENTS[1])
    assert record.disk_is_full
    with pytest.raises(RecordFull, match="disk is full"):
        record.request(request(1))
    assert list(read_events(tmp_path / "r")) == EVENTS[:2]
    disk.left = 3
    with pytest.raises(RecordFull):
        record.emit(EVENTS[2])
    assert list(read_events(tmp_path / "r")) == EVENTS[:2]


def test_secrets_are_cut_by_name_and_value(tmp_path: Path) -> None:
    environment = {
        "OPENAI_API_KEY": 'sk-"odd"-CANARY',
        "MY_TOKEN": "canary-two-2",
        "PATH": "/usr/bin",
        "A_KEY": "short",
    }
    secrets = Secrets(environment)
    record = new_record(tmp_path / "r", secrets)
    told = f"the key is {environment['OPENAI_API_KEY']} and {environment['MY_TOKEN']} in /usr/bin, short"
    encoded = Transcript(record, secrets).add([Message(role=Role.USER, parts=(Text(text=told),))])
    record.emit(Note(kind="note", text=told))
    record.close()
    for data in (b"".join(path.read_bytes() for path in (tmp_path / "r").rglob("*.*")), encoded[0].body):
        assert b"CANARY" not in data
        assert b"canary-two" not in data
        assert b"[OPENAI_API_KEY cut] and [MY_TOKEN cut] in /usr/bin, short" in data


SHORT, LONG = "abcdefgh", "abcdefghijkl"


@given(
    st.lists(st.sampled_from([SHORT, LONG, LONG[:9], "ijkl", "a", "x\n", "é", "--------"]), max_size=8).map("".join),
    st.lists(st.integers(0, 60), max_size=6),
)
def test_it_makes_no_difference_to_secrets_where_a_file_is_cut(text: str, cuts: list[int]) -> None:
    secrets = Secrets({"SHORT_KEY": SHORT, "LONG_KEY": LONG, "LINE_KEY": "--------", "E_KEY": "\u00e9\u00e9aaaaaa"})
    data = text.encode()
    ends = [0, *sorted(cuts), len(data)]
    pieces = [data[a:b] for a, b in pairwise(ends)]
    assert b"".join(secrets.cut_pieces(pieces)) == secrets.cut(text).encode() == secrets.cut_bytes(data)


def test_a_secret_that_is_the_beginning_of_another_shows_nothing_of_it() -> None:
    secrets = Secrets({"SHORT_KEY": SHORT, "LONG_KEY": LONG})
    assert b"".join(secrets.cut_pieces([b"key: abcdefgh", b"ijkl\n"])) == b"key: [LONG_KEY cut]\n"


def test_an_image_kept_in_the_record_goes_into_the_request(tmp_path: Path) -> None:
    record = new_record(tmp_path / "r")
    ref = record.keep_image(b"PNG", "image/png", 1, 1)
    assert ref == ImageRef(media_type="image/png", digest=sha256(b"PNG").hexdigest(), width=1, height=1)
    (encoded,) = Transcript(record, Secrets({})).add([Message(role=Role.USER, parts=(ref,))])
    record.close()
    assert encoded.images == 1
    assert b64encode(b"PNG") in encoded.body
    assert record.image(ref) == b"PNG"


def test_kept_outputs_hold_no_secret_at_the_end(tmp_path: Path) -> None:
    record = new_record(tmp_path / "r", Secrets({"MY_TOKEN": "canary-two-2"}))
    (record.outputs / "bash-0001.txt").write_bytes(b"\xff canary-two-2 \x00 end")
    (record.outputs / "bash-0002.txt").write_bytes(b"nothing")
    record.finish(b"{}")
    record.close()
    assert (record.outputs / "bash-0001.txt").read_bytes() == b"\xff [MY_TOKEN cut] \x00 end"
    assert (record.outputs / "bash-0002.txt").read_bytes() == b"nothing"


@given(ANY_TEXT)
@settings(max_examples=50)
def test_any_text_is_recorded_as_valid_unicode(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    folder = tmp_path_factory.mktemp("any") / "r"
    record = new_record(folder)
    encoded = Transcript(record, Secrets({})).add([Message(role=Role.USER, parts=(Text(text=text),))])
    record.close()
    (folder / "events.jsonl").read_text(encoding="utf-8")
    encoded[0].body.decode("utf-8")
    assert len(RecordReader(folder).messages) == 1
