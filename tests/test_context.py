"""What goes into a request: text that is safe to count and to send, results that fit, pairs that stay together."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from agent import Stage, check_pairs
from case_fields import fields_of
from context_cases import DONE, Flood, call_turn, check_of
from hypothesis import given
from hypothesis import strategies as st

from agentctl.agents.models.bound import PromptMeter
from agentctl.agents.models.wire import encode
from agentctl.agents.protocols import PROTOCOLS
from agentctl.agents.state import Step
from agentctl.base.messages import Call, Message, Result, Role, Text
from agentctl.base.text import clean, cut, head, head_bytes, tail, tail_bytes


def counted(text: str) -> int:
    """The tokens that are set aside for `text` as a message."""
    encoded = encode(Message(role=Role.USER, parts=(Text(text=clean(text)),)), 1, images=lambda ref: b"")
    return PromptMeter("any").bound([encoded], ()).tokens


@pytest.mark.cases("context")
def test_case(case: dict[str, Any], tmp_path: Path) -> None:
    given, exact = fields_of(case)
    match case["kind"]:
        case kind if check := check_of(kind, case["input"]):
            check(given, exact, tmp_path)
        case "special-tokens" | "counter-robust" if "texts" in given:
            assert exact.get("raises", False) is False
            assert exact.get("stored_valid_utf8", True) is True
            least = exact.get("count_gt", 0)
            for text in given["texts"]:
                assert counted(text) - counted("") > least
                assert json.loads(json.dumps(clean(text)).encode()) == clean(text)
                clean(text).encode("utf-8")
        case "counter-robust" if re.search(r"\b(cut|truncate|shorten)", given["action"]):
            assert exact.get("stored_valid_utf8", True) is True
            check_cuts(exact.get("not_contains", []))
        case "orphan-result" if given["action"] == "next request":
            assert given["messages"] and "every call id" in exact["invariant"]
            play = Stage(tmp_path).play([call_turn("bash", '{"command": "echo'), DONE])
            for request in [*play.model.requests, play.conversation]:
                check_pairs(request)
        case "one-huge-result":
            flood = Flood(given["tool_result_chars"])
            stage = Stage(tmp_path, extra_tools=[flood], window=given["window_tokens"])
            play = stage.play([call_turn("flood", "{}"), DONE])
            assert len(json.dumps(play.model.requests[1])) < exact["next_request_tokens_lt"]
        case kind:
            pytest.fail(f"this test can't map the kind {kind} with {sorted(given)}")
    given.done()
    exact.done()


def check_cuts(forbidden: list[str]) -> None:
    texts = ["a🍸b" * 5, "e\u0301" * 9, "👩🏽\u200d🔬" * 4, "🇩🇪🇫🇷" * 3, "naïve\u0308"]
    for text in texts:
        whole = text.encode()
        for limit in range(len(text) + 1):
            for piece in (head(text, limit), tail(text, limit), cut(text, limit)):
                piece.encode("utf-8")
                assert not any(each in piece for each in forbidden)
            assert len(head(text, limit)) <= limit
            assert text.startswith(head(text, limit))
            assert text.endswith(tail(text, limit))
        for limit in range(len(whole) + 1):
            assert whole.startswith(head_bytes(whole, limit))
            assert whole.endswith(tail_bytes(whole, limit))
            head_bytes(whole, limit).decode("utf-8")
            tail_bytes(whole, limit).decode("utf-8")


def test_a_mark_is_never_parted_from_its_letter() -> None:
    assert head("e\u0301e\u0301", 3) == "e\u0301"
    assert tail("e\u0301e\u0301", 3) == "e\u0301"
    assert head("👍🏽", 1) == ""


@given(st.text(st.characters(codec=None), max_size=40))
def test_clean_text_is_valid_and_keeps_what_was_valid(text: str) -> None:
    cleaned = clean(text)
    cleaned.encode("utf-8")
    if not any("\ud800" <= character <= "\udfff" for character in text):
        assert cleaned == text


def test_a_surrogate_pair_becomes_its_character() -> None:
    assert clean("\ud83c\udf78") == "🍸"
    assert clean("\ud83c!") == "\ufffd!"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_notes_come_after_all_results(protocol: str) -> None:
    """Notes are placed only where call and result stay together."""
    calls = tuple(Call(id=f"c1.{n}", name="bash", arguments={"command": "x"}) for n in (1, 2))
    results = tuple(Result(call_id=call.id, parts=(Text(text=call.id),)) for call in calls)
    step = Step(1, Message(role=Role.ASSISTANT, parts=calls), results, ("time is short",), complete=True)
    sent = [
        encode(message, n, images=lambda ref: b"").tree for n, message in enumerate(PROTOCOLS[protocol].render(step), 1)
    ]
    check_pairs(sent)
    assert "time is short" in str(sent[-1]["content"])
    assert sum("c1.2" in str(message["content"]) for message in sent) == 1
