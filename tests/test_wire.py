"""Messages out, replies in, and what failures mean: pure functions, no sending."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl.agents.models import faults
from agentctl.agents.models.body import request_body
from agentctl.agents.models.protocol import EncodedMessage, Fault, FinishReason, ModelSpec, ProviderError, RawReply
from agentctl.agents.models.reply import decode_reply
from agentctl.agents.models.wire import encode, encode_tool, sent_name, wire_id
from agentctl.base.messages import Call, ImageRef, Message, Opaque, Part, Result, Role, Text, ToolSpec

IMAGE = ImageRef(digest="0" * 64, media_type="image/png", width=1, height=1)


def sent(role: Role, *parts: Part) -> dict[str, Any]:
    """The tree that a message is sent as; its bytes must say the same, in valid UTF-8."""
    encoded = encode(Message(role=role, parts=parts), 7, images=lambda ref: b"PNG")
    assert encoded.number == 7
    assert json.loads(encoded.body.decode("utf-8")) == encoded.tree
    return encoded.tree


def received(message: dict[str, Any], finish: str | None = "stop", **more: Any) -> RawReply:
    return decode_reply({"choices": [{"message": message, "finish_reason": finish}], **more}, provider="p")


def as_message(reply: RawReply) -> Message:
    """The reply as the loop would keep it, with calls numbered."""
    calls = [
        Call(id=f"c1.{n}", name=call.name, arguments=json.loads(call.arguments), raw=call.arguments)
        for n, call in enumerate(reply.calls, 1)
    ]
    return Message(role=Role.ASSISTANT, parts=(*reply.parts, *calls))


# What is sent


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
    model = ModelSpec(name="openai/some-model", temperature=0.0, effort="high")
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
    assert json.loads(request_body(ModelSpec(name="m"), [], [], 9)) == {"model": "m", "max_tokens": 9, "messages": []}


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


# What comes back


def test_a_plain_reply() -> None:
    call = {"id": "x", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "odd": {"a": [1]}}
    reply = received({"content": "hi", "tool_calls": [call, call]}, "tool_calls", usage=usage, model="echo")
    assert reply.parts == (Text(text="hi"),)
    assert [(call.id, call.name, call.arguments) for call in reply.calls] == [("x", "bash", '{"command": "ls"}')] * 2
    assert (reply.finish, reply.finish_raw) == (FinishReason.TOOL_CALLS, "tool_calls")
    assert (reply.usage, reply.model, reply.dialect, reply.refusal) == (usage, "echo", "openai_chat", None)


@pytest.mark.parametrize(
    ("word", "finish"),
    [
        ("stop", FinishReason.STOP),
        ("length", FinishReason.LENGTH),
        ("MAX_TOKENS", FinishReason.LENGTH),
        ("content_filter", FinishReason.REFUSED),
        ("SAFETY", FinishReason.REFUSED),
        ("function_call", FinishReason.TOOL_CALLS),
        ("something_new", FinishReason.OTHER),
        (None, FinishReason.STOP),
    ],
)
def test_finish_reasons(word: str | None, finish: FinishReason) -> None:
    assert received({"content": "x"}, word).finish is finish


def test_a_refusal_carries_the_providers_words() -> None:
    assert received({"content": None, "refusal": "I can't."}).refusal == "I can't."
    blocks = received({"content": [{"type": "refusal", "refusal": "No."}]})
    assert (blocks.refusal, blocks.finish, blocks.parts) == ("No.", FinishReason.REFUSED, ())


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ({"id": None, "function": {"name": "bash", "arguments": "{}"}}, ("", "bash", "{}")),
        ({"function": {"name": "bash", "arguments": {"command": "ls"}}}, ("", "bash", '{"command":"ls"}')),
        ({"id": 5, "function": {"name": "bash", "arguments": None}}, ("5", "bash", "")),
        ({"id": "a", "name": "bash", "arguments": "{}"}, ("a", "bash", "{}")),
        ({"id": "a", "function": None}, ("a", "", "")),
        ("bash", ("", "", "bash")),
        ({"id": "a", "function": {"name": "bash", "arguments": '{"a": "\ud83c"}'}}, ("a", "bash", '{"a": "\ufffd"}')),
    ],
)
def test_odd_calls_are_kept_for_the_loop_to_answer(call: Any, expected: tuple[str, str, str]) -> None:
    (only,) = received({"tool_calls": [call]}, "tool_calls").calls
    assert (only.id, only.name, only.arguments) == expected


def test_the_old_form_of_a_call_is_read() -> None:
    (call,) = received({"content": "", "function_call": {"name": "bash", "arguments": "{}"}}, "function_call").calls
    assert (call.name, call.arguments) == ("bash", "{}")


@pytest.mark.parametrize(
    "message",
    [
        {"content": None},
        {"content": "", "tool_calls": []},
        {"content": []},
        {"content": {}},
        {},
        None,
        "text",
    ],
)
def test_shapes_of_nothing_are_an_empty_reply(message: Any) -> None:
    reply = decode_reply({"choices": [{"message": message, "finish_reason": "stop"}]})
    assert (reply.parts, reply.calls, reply.usage) == ((), (), None)


@pytest.mark.parametrize(
    ("text", "thinking", "answer"),
    [
        ("<think>\nhm\n</think>\n\nYes.", "<think>\nhm\n</think>\n\n", "Yes."),
        ("<think>never closed", "<think>never closed", ""),
        ("opened in the prompt\n</think>\n\nYes.", "opened in the prompt\n</think>\n\n", "Yes."),
        ("The tag </think> in a sentence.", "", "The tag </think> in a sentence."),
        ("First words, <think>then</think> this.", "", "First words, <think>then</think> this."),
        ("   \n", "", "   \n"),
    ],
)
def test_leading_thinking_is_kept_apart_from_the_text(text: str, thinking: str, answer: str) -> None:
    reply = received({"content": text})
    assert "".join(str(part.data) for part in reply.parts if isinstance(part, Opaque)) == thinking
    assert "".join(part.text for part in reply.parts if isinstance(part, Text)) == answer
    assert encode(as_message(reply), 1, images=lambda ref: b"").tree["content"] == text


CALL = {"id": "t", "type": "function", "function": {"name": "bash", "arguments": '{"a":1}'}}


@pytest.mark.parametrize(
    "message",
    [
        {"content": "a", "reasoning_content": "because"},
        {"content": "a", "reasoning_details": [{"type": "reasoning.encrypted", "data": "x=="}]},
        {
            "content": None,
            "tool_calls": [CALL],
            "thinking_blocks": [{"type": "thinking", "thinking": "", "signature": "S"}],
        },
        {
            "content": [
                {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
                {"type": "text", "text": "a"},
            ]
        },
        {"content": None, "tool_calls": [CALL, CALL | {"extra_content": {"google": {"thought_signature": "S"}}}]},
        {
            "content": None,
            "tool_calls": [CALL | {"function": {**CALL["function"], "provider_specific_fields": {"s": 1}}}],
        },
        {"content": "a", "provider_specific_fields": {"thought_signatures": ["S"]}},
    ],
)
def test_what_is_the_providers_own_goes_back_to_the_letter(message: dict[str, Any]) -> None:
    tree = encode(as_message(received(message)), 1, images=lambda ref: b"").tree
    for n, call in enumerate(message.get("tool_calls", []), 1):
        call = {**call, "id": f"c00001{n:03}"}
        assert tree["tool_calls"][n - 1] == call
    kept = {key: value for key, value in message.items() if key != "tool_calls"}
    assert {key: tree[key] for key in kept} == kept


def test_a_plain_copy_of_structured_reasoning_is_not_sent_twice() -> None:
    blocks = [{"type": "thinking", "thinking": "hm", "signature": "S"}]
    reply = received({"content": "a", "reasoning_content": "hm", "thinking_blocks": blocks})
    assert [part.field for part in reply.parts if isinstance(part, Opaque)] == ["thinking_blocks"]


@pytest.mark.parametrize(
    ("tree", "fault", "lost"),
    [
        ({"error": {"message": "Overloaded"}}, Fault.TRANSIENT, False),
        ({"error": "model is overloaded", "error_type": "overloaded"}, Fault.TRANSIENT, False),
        (
            {"choices": [{"error": {"code": 502, "message": "upstream"}, "finish_reason": "error"}]},
            Fault.TRANSIENT,
            False,
        ),
        ({"object": "error", "message": "no", "type": "BadRequestError", "code": 400}, Fault.REJECTED, False),
        ({"error": {"message": "nobody knows"}}, Fault.REJECTED, False),
        ({"base_resp": {"status_code": 1002, "status_msg": "rate limit"}, "choices": None}, Fault.TRANSIENT, False),
        ({"msg": "insufficient balance"}, Fault.AUTH, False),
        ({"message": "Overloaded"}, Fault.TRANSIENT, False),
        ({}, Fault.TRANSIENT, True),
        ([], Fault.TRANSIENT, True),
        (None, Fault.TRANSIENT, True),
        ("data: {}", Fault.TRANSIENT, True),
        ({"choices": None}, Fault.TRANSIENT, True),
    ],
)
def test_what_is_no_completion_is_a_failure(tree: Any, fault: Fault, lost: bool) -> None:
    with pytest.raises(ProviderError) as caught:
        decode_reply(tree)
    assert (caught.value.fault, caught.value.lost) == (fault, lost)


leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None), max_size=8)
# fmt: off
words = st.sampled_from([
    "choices", "message", "content", "tool_calls", "function", "function_call", "name", "arguments", "id", "type",
    "text", "refusal", "finish_reason", "usage", "model", "error", "code", "status", "thinking", "thought_signatures",
    "reasoning_content", "thinking_blocks", "provider_specific_fields",
])
# fmt: on
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words | st.text(max_size=3), inner, max_size=5),
    max_leaves=20,
)
messages = st.fixed_dictionaries(
    {},
    optional={"content": values, "tool_calls": values, "refusal": values, "function_call": values, "reasoning": values},
)
completions = st.builds(
    lambda message, finish, usage, model: {
        "choices": [{"message": message, "finish_reason": finish}],
        "usage": usage,
        "model": model,
    },
    messages,
    values,
    values,
    values,
)


@given(values | completions)
def test_decoding_never_raises_anything_but_a_provider_error(tree: Any) -> None:
    try:
        reply = decode_reply(tree, provider="p")
    except ProviderError as error:
        error.words.encode("utf-8")
        return
    reply.model_dump_json()
    calls = [
        Call(id=f"c1.{n}", name=call.name, arguments=None, raw=call.arguments) for n, call in enumerate(reply.calls)
    ]
    message = Message(role=Role.ASSISTANT, parts=(*reply.parts, *calls))
    again = encode(message, 1, images=lambda ref: b"")
    assert json.loads(again.body.decode("utf-8")) == again.tree


def test_an_empty_error_beside_a_reply_is_none() -> None:
    for nothing in (None, "", {}, {"message": "", "code": None}):
        assert received({"content": "x"}, error=nothing).parts == (Text(text="x"),)


def test_a_reply_nested_beyond_reason_is_unreadable() -> None:
    tree: Any = "x"
    for _ in range(5000):
        tree = [tree]
    with pytest.raises(ProviderError) as caught:
        received({"content": tree})
    assert caught.value.lost


# What failures mean

TOO_LONG = [
    (400, "This model's maximum context length is 128000 tokens. However, your messages resulted in 509178 tokens."),
    (400, "Your input exceeds the context window of this model. Please adjust your input and try again."),
    (400, "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 509178 tokens."),
    (400, "prompt is too long: 207889 tokens > 200000 maximum"),
    (400, "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"),
    (413, "Request exceeds the maximum size"),
    (400, "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."),
    (400, "Input is too long for requested model."),
    (400, "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length"),
    (400, "too many tokens: total number of tokens in the prompt cannot exceed 4081"),
    (422, "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097. Given: 5000 `inputs` tokens"),
    (400, "This model's maximum prompt length is 131072 but the request contains 537812 tokens."),
    (500, "the request exceeds the available context size, try increasing it"),
    (400, "Range of input length should be [1, 30720]"),
    (400, "Please reduce the length of the messages or completion. Current length is 9000 while limit is 8192"),
    (400, "Invalid request: Your request exceeded model token limit: 131072"),
    (400, "Prompt exceeds max length"),
    (400, "invalid params, context window exceeds limit"),
    (400, "prompt token count of 130000 exceeds the limit of 128000"),
    (400, "prompt too long; exceeded max context length by 12 tokens"),
    (None, "litellm.ContextWindowExceededError"),
]


@pytest.mark.parametrize(("status", "words"), TOO_LONG)
def test_too_long_is_told_in_many_words(status: int | None, words: str) -> None:
    assert faults.classify(status, words, "invalid_request_error") is Fault.CONTEXT


@pytest.mark.parametrize(
    ("status", "words", "kind", "fault"),
    [
        (401, "missing key", "", Fault.AUTH),
        (403, "no access to this model", "", Fault.AUTH),
        (402, "", "", Fault.AUTH),
        (429, "You exceeded your current quota", "insufficient_quota", Fault.AUTH),
        (400, "Your credit balance is too low to access the API", "invalid_request_error", Fault.AUTH),
        (429, "You exceeded your current quota, please check your plan", "429 RESOURCE_EXHAUSTED", Fault.TRANSIENT),
        (
            429,
            "Request too large for tokens per minute: Limit 30000, Requested 40000 input tokens",
            "",
            Fault.TRANSIENT,
        ),
        (408, "", "", Fault.TRANSIENT),
        (409, "", "", Fault.TRANSIENT),
        (500, "", "", Fault.TRANSIENT),
        (529, "", "overloaded_error", Fault.TRANSIENT),
        (599, "never heard of", "", Fault.TRANSIENT),
        (400, "The server is busy, please try again later", "", Fault.TRANSIENT),
        (None, "Overloaded", "", Fault.TRANSIENT),
        (None, "boom", "server_error", Fault.TRANSIENT),
        (None, "Incorrect API key provided", "", Fault.AUTH),
        (400, "invalid tool schema", "", Fault.REJECTED),
        (400, "function 'overload_test' has a bad schema", "invalid_request_error", Fault.REJECTED),
        (400, "max_tokens: 64000 > 8192, which is the maximum allowed number of output tokens", "", Fault.REJECTED),
        (
            400,
            "max_tokens is too large: 100000. This model supports at most 16384 completion tokens",
            "",
            Fault.REJECTED,
        ),
        (400, "max_tokens (100000) exceeds the maximum of the model", "", Fault.REJECTED),
        (400, "'max_tokens' is too large: 9. This model's maximum context length is 8 tokens", "", Fault.CONTEXT),
        (404, "no such model", "", Fault.REJECTED),
        (422, "field required", "", Fault.REJECTED),
        (400, "The response was filtered due to the prompt", "content_filter", Fault.REFUSED),
        (400, "flagged as potentially violating our usage policy", "invalid_prompt", Fault.REFUSED),
        (403, "Your input was flagged", "", Fault.REFUSED),
        (None, "anything else", "", Fault.REJECTED),
    ],
)
def test_what_kind_of_failure_it_is(status: int | None, words: str, kind: str, fault: Fault) -> None:
    assert faults.classify(status, words, kind) is fault


NOW = datetime(2030, 1, 1, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0),
        ("0.5", 0.5),
        (" 12 ", 12.0),
        ("Tue, 01 Jan 2030 12:01:30 GMT", 90.0),
        ("Tue, 01 Jan 2030 11:00:00 GMT", 0.0),
        ("soon", None),
        ("-3", None),
        ("nan", None),
        ("", None),
        (None, None),
    ],
)
def test_retry_after_is_seconds_or_a_date(header: str | None, seconds: float | None) -> None:
    assert faults.seconds_to_wait(header, NOW) == seconds


@pytest.mark.parametrize(
    ("words", "seconds"),
    [
        ("Rate limit reached. Please try again in 6.5s.", 6.5),
        ("Please try again in 1m30s", 90.0),
        ("Please try again in 250ms", 0.25),
        ('{"details": [{"retryDelay": "36s"}]}', 36.0),
        ("Please try again later", None),
    ],
)
def test_a_pause_told_only_in_words_is_found(words: str, seconds: float | None) -> None:
    assert faults.of_reply(429, None, words).retry_after == seconds


def test_words_of_an_error_are_the_providers_and_bounded() -> None:
    assert faults.of_reply(400, {"error": {"message": "bad schema"}}).words == "bad schema"
    assert faults.of_reply(400, [{"error": {"message": "bad"}}]).words == "bad"
    assert faults.of_reply(422, {"detail": "field required"}).words == "field required"
    assert faults.of_reply(502, None, "<html><title>Bad gateway</title>...</html>").words == "Bad gateway"
    assert faults.of_reply(503, None, "").words == "HTTP 503 Service Unavailable"
    assert len(faults.of_reply(500, None, "x" * 100_000).words) < 3000
    assert faults.of_reply(500, {"error": {"message": "\ud800"}}).words == "\ufffd"
