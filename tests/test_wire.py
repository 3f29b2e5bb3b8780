"""Messages as they are sent: pure functions, no sending."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from agentctl.agents.models.body import request_body
from agentctl.agents.models.protocol import EncodedMessage, ModelSpec
from agentctl.agents.models.wire import encode, encode_tool, sent_name, wire_id
from agentctl.base.messages import Call, ImageRef, Message, Opaque, Part, Result, Role, Text, ToolSpec

IMAGE = ImageRef(digest="0" * 64, media_type="image/png", width=1, height=1)


def sent(role: Role, *parts: Part) -> dict[str, Any]:
    """The tree that a message is sent as; its bytes must say the same, in valid UTF-8."""
    encoded = encode(Message(role=role, parts=parts), 7, images=lambda ref: b"PNG")
    assert encoded.number == 7
    assert json.loads(encoded.body.decode("utf-8")) == encoded.tree
    return encoded.tree


def test_text_is_a_string_and_images_are_data_urls() -> None:
    assert sent(Role.SYSTEM, Text(text="a"), Text(text="ü")) == {"role": "system", "content": "a\nü"}
    tree = sent(Role.USER, Text(text="look"), IMAGE)
    assert tree["content"][0] == {"type": "text", "text": "look"}
    url = tree["content"][1]["image_url"]["url"]
    assert url == "data:image/png;base64," + base64.b64encode(b"PNG").decode()
    assert encode(Message(role=Role.USER, parts=(IMAGE, IMAGE)), 1, images=lambda ref: b"x").images == 2


@pytest.mark.parametrize(
    ("arguments", "raw", "outgoing"),
    [
        ({"command": "ls"}, '{"command": "ls"}', {"command": "ls"}),
        (None, '{"command": "ls', {"_unparsed": '{"command": "ls'}),
        (None, "null", {"_unparsed": "null"}),
        (None, "", {"_unparsed": ""}),
        (None, "\ud83c", {"_unparsed": "\ufffd"}),
        ({"x": float("nan"), "y": ["\ud83c"]}, "", {"x": None, "y": ["\ufffd"]}),
    ],
)
def test_outgoing_arguments_are_always_a_json_object(arguments: Any, raw: str, outgoing: dict[str, Any]) -> None:
    tree = sent(Role.ASSISTANT, Call(id="c3.1", name="bash", arguments=arguments, raw=raw))
    assert tree["content"] is None
    call = tree["tool_calls"][0]
    assert call["type"] == "function"
    assert json.loads(call["function"]["arguments"]) == outgoing


def test_ids_are_accepted_everywhere_pair_and_stay_distinct() -> None:
    ids = ["c1.1", "c1.10", "c11.1", "c99999.999", "c1.1000", "c100000.1", "c01", "call:1", "", "ü" * 80, "c1_1"]
    wired = [wire_id(id) for id in ids]
    assert len(set(wired)) == len(ids)
    assert all(len(id) == 9 and id.isascii() and id.isalnum() for id in wired)
    call = sent(Role.ASSISTANT, Call(id="c3.1", name="bash", arguments={}))
    result = sent(Role.TOOL, Result(call_id="c3.1", parts=(Text(text="ok"),)))
    assert result == {"role": "tool", "tool_call_id": call["tool_calls"][0]["id"], "content": "ok"}


@pytest.mark.parametrize("name", ["multi_tool_use.parallel", "", "a b", "ü", "x" * 200])
def test_a_made_up_tool_name_is_sent_in_a_form_that_passes(name: str) -> None:
    outgoing = sent(Role.ASSISTANT, Call(id="c1.1", name=name, arguments={}))["tool_calls"][0]["function"]["name"]
    assert 0 < len(outgoing) <= 64
    assert outgoing.replace("_", "").replace("-", "").isascii()
    assert "." not in outgoing and " " not in outgoing


@pytest.mark.parametrize(
    "message",
    [
        Message(role=Role.TOOL, parts=(Result(call_id="c1.1", parts=(Text(text="see"), IMAGE)),)),
        Message(role=Role.TOOL, parts=(Text(text="no result"),)),
        Message(role=Role.TOOL, parts=()),
        Message(role=Role.USER, parts=(Call(id="c1.1", name="bash", arguments={}),)),
        Message(role=Role.ASSISTANT, parts=(IMAGE,)),
    ],
)
def test_a_part_out_of_place_is_refused(message: Message) -> None:
    with pytest.raises(ValueError, match=r"result|part"):
        encode(message, 1, images=lambda ref: b"")


def test_no_lone_surrogate_leaves() -> None:
    for text in ("\ud83d", "caf\udce9", "x\ud800y", "\ud83c\udf78"):
        for role, part in ((Role.USER, Text(text=text)), (Role.TOOL, Result(call_id=text, parts=(Text(text=text),)))):
            content = sent(role, part)["content"]
            assert content == text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        sent(Role.ASSISTANT, Opaque(provider="p", field="reasoning", data={text: [text]}), Text(text=text))


def test_a_request_joins_the_bytes_of_its_messages() -> None:
    messages = [EncodedMessage(n, b'{"role":"user","content":"%d"}' % n, {}) for n in range(3)]
    tool = encode_tool(ToolSpec(name="bash", description="Runs it.", parameters={"type": "object"}))
    model = ModelSpec(name="openai/some-model", stream=False, temperature=0.0, effort="high")
    body = request_body(model, messages, [tool], 500)
    assert b",".join(message.body for message in messages) in body
    assert json.loads(body) == {
        "model": "some-model",
        "messages": [{"role": "user", "content": str(n)} for n in range(3)],
        "tools": [
            {
                "type": "function",
                "function": {"name": "bash", "description": "Runs it.", "parameters": {"type": "object"}},
            }
        ],
        "max_tokens": 500,
        "temperature": 0.0,
        "reasoning_effort": "high",
    }
    assert json.loads(request_body(ModelSpec(name="m", stream=False), [], [], 9)) == {
        "model": "m",
        "max_tokens": 9,
        "messages": [],
    }


@pytest.mark.parametrize("name", ["openai/gpt-5-mini", "o3", "openrouter/openai/o4-mini", "openai/gpt-6"])
def test_openai_reasoning_models_get_the_limit_under_its_new_name(name: str) -> None:
    tree = json.loads(request_body(ModelSpec(name=name), [], [], 9))
    assert tree["max_completion_tokens"] == 9
    assert "max_tokens" not in tree


@pytest.mark.parametrize(
    ("name", "outgoing"),
    [
        ("openai/gpt-4o", "gpt-4o"),
        ("openrouter/anthropic/claude-sonnet-4.5", "anthropic/claude-sonnet-4.5"),
        ("hosted_vllm/openai/gpt-oss-20b", "openai/gpt-oss-20b"),
        ("meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-8B"),
        ("qwen", "qwen"),
    ],
)
def test_the_route_is_left_out_of_the_name(name: str, outgoing: str) -> None:
    assert sent_name(ModelSpec(name=name)) == outgoing
