"""Replies as they come: an OpenAI chat completion made a RawReply, whatever a server made of that form.

Nothing of a reply is trusted: every odd shape gives a ProviderError or a reply with less in it, and no other exception.
What is a provider's own (reasoning, signatures) becomes Opaque parts, which `wire` sends back to the letter.
"""

from __future__ import annotations

import re
from typing import Any

from pydantic import JsonValue, ValidationError

from agentctl.base.jsonio import dumps
from agentctl.base.messages import Opaque, Part, Text

from . import faults
from .protocol import Fault, FinishReason, ProviderError, RawCall, RawReply
from .wire import legal

# Members of a message that its provider wants back. Of each group the first that is there is kept: the others are its
# text once more. litellm (OpenAI's encrypted items; Anthropic, Bedrock), then DeepSeek and vLLM; OpenRouter.
_REASONING = (("reasoning_items", "thinking_blocks", "reasoning_content"), ("reasoning_details", "reasoning"))
_TEXT_BLOCKS = ("text", "output_text")
_THINK = re.compile(r"\s*<think>.*?(</think>\s*|\Z)", re.DOTALL)
_THINK_UNOPENED = re.compile(r"(?:(?!<think>).)*?(?:^|\n)[ \t]*</think>[ \t]*(\n\s*|\Z)", re.DOTALL)

_FINISH = {
    FinishReason.STOP: ("stop", "end_turn", "eos", "eos_token", "stop_sequence", "completed"),
    FinishReason.TOOL_CALLS: ("tool_calls", "tool_call", "tool_use", "function_call"),
    FinishReason.LENGTH: ("length", "max_tokens", "max_output_tokens", "model_length"),
    FinishReason.REFUSED: (
        "content_filter",
        "refusal",
        "safety",
        "recitation",
        "prohibited_content",
        "blocklist",
        "spii",
    ),
}
_FINISH_OF_WORD = {word: reason for reason, words in _FINISH.items() for word in words}


def decode_reply(tree: object, *, provider: str = "") -> RawReply:
    """The reply in the JSON value of a chat completion. `provider` names whose the opaque parts are.

    Raises ProviderError where the value is an error (also one under status 200, or in the choice), and where it is no
    completion at all: then `lost`, because an answer was billed that can't be read.
    """
    try:
        return _decode(tree, provider)
    except (ValidationError, RecursionError) as error:
        raise _unreadable(type(error).__name__) from None


def _decode(tree: object, provider: str) -> RawReply:
    if faults.error_in(tree) is not None:
        raise faults.of_reply(200, tree)
    if not isinstance(tree, dict) or not isinstance(tree.get("choices"), list):
        told = faults.of_words(dumps(legal(tree)).decode("utf-8")) if isinstance(tree, dict) else None
        raise told or _unreadable("no choices")
    whole = legal(tree)
    assert isinstance(whole, dict)
    choices = whole["choices"]
    choice = choices[0] if isinstance(choices, list) and choices else {}
    if not isinstance(choice, dict):
        choice = {}
    if faults.error_in(choice) is not None:
        raise faults.of_reply(200, choice)
    message = choice.get("message")
    if not isinstance(message, dict):
        message = {}
    calls, extras = _calls(message)
    parts, refusal = _content(message.get("content"), provider)
    kept = [key for group in _REASONING if (key := next(filter(message.get, group), None))]
    own = [Opaque(provider=provider, field=key, data=message[key]) for key in kept]
    own += [Opaque(provider=provider, field=key, data=data) for key, data in _signatures(message)]
    if any(extras):
        own.append(Opaque(provider=provider, field="tool_calls", data=extras))
    refusal = _text(message.get("refusal")) or refusal
    raw = _text(choice.get("finish_reason"))
    finish = _FINISH_OF_WORD.get(raw.lower(), FinishReason.OTHER)
    if refusal:
        finish = FinishReason.REFUSED
    elif not raw:
        finish = FinishReason.TOOL_CALLS if calls else FinishReason.STOP if parts else FinishReason.OTHER
    usage = whole.get("usage")
    return RawReply(
        parts=(*own, *parts),
        calls=tuple(calls),
        finish=finish,
        finish_raw=raw,
        refusal=refusal or None,
        model=_text(whole.get("model")),
        usage=usage if isinstance(usage, dict) and usage else None,
    )


def _content(content: JsonValue, provider: str) -> tuple[list[Part], str]:
    """The parts of a message's content, and the words of a refusal among them."""
    if isinstance(content, str):
        return _split_thinking(content, provider), ""
    if isinstance(content, dict):
        content = [content]
    parts: list[Part] = []
    refusals: list[str] = []
    for block in content if isinstance(content, list) else ():
        match block:
            case str() if block:
                parts.append(Text(text=block))
            case {"type": "refusal", "refusal": str(words)}:
                refusals.append(words)
            case {"text": str(text), **rest} if rest.get("type", "text") in _TEXT_BLOCKS:
                if text:
                    parts.append(Text(text=text))
            case dict() if block:
                parts.append(Opaque(provider=provider, field="content", data=block))
    return parts, "\n".join(refusals)


def _split_thinking(text: str, provider: str) -> list[Part]:
    """A text's leading `<think>` part, kept apart, and the rest.

    A part that the output limit left open reaches to the end. Some templates open the part in the prompt, so that only
    a `</think>` on a line of its own is seen; everything before it is thinking then.
    """
    found = _THINK.match(text) or ("</think>" in text and _THINK_UNOPENED.match(text)) or None
    parts: list[Part] = []
    if found:
        parts.append(Opaque(provider=provider, field="content", data=found[0]))
        text = text[found.end() :]
    if text:
        parts.append(Text(text=text))
    return parts


def _calls(message: dict[str, JsonValue]) -> tuple[list[RawCall], list[JsonValue]]:
    """The calls of a message in order, and for each what it holds besides id, name and arguments."""
    items = message.get("tool_calls")
    if isinstance(items, dict):
        items = [items]
    if not items and isinstance(message.get("function_call"), dict):
        items = [{"function": message["function_call"]}]
    calls: list[RawCall] = []
    extras: list[JsonValue] = []
    for item in items if isinstance(items, list) else ():
        if item is None:
            continue
        call: dict[str, JsonValue] = item if isinstance(item, dict) else {"function": {"arguments": item}}
        inner = call.get("function")
        function: dict[str, Any] = inner if isinstance(inner, dict) else call
        calls.append(
            RawCall(id=_text(call.get("id")), name=_text(function.get("name")), arguments=_arguments(function))
        )
        extras.append(_extra(call))
    return calls, extras


def _arguments(function: dict[str, JsonValue]) -> str:
    arguments = function.get("arguments")
    if arguments is None:
        return ""
    return arguments if isinstance(arguments, str) else dumps(arguments).decode("utf-8")


def _extra(call: dict[str, JsonValue]) -> JsonValue:
    known = ("id", "type", "index", "function", "name", "arguments")
    extra: dict[str, JsonValue] = {key: value for key, value in call.items() if key not in known and value}
    inner = call.get("function")
    if isinstance(inner, dict):
        rest: JsonValue = {key: value for key, value in inner.items() if key not in ("name", "arguments") and value}
        if rest:
            extra["function"] = rest
    return extra


def _signatures(message: dict[str, JsonValue]) -> list[tuple[str, JsonValue]]:
    """Gemini's signatures of texts, where litellm keeps them; the rest of that member repeats what others say."""
    match message.get("provider_specific_fields"):
        case {"thought_signatures": list(signatures)} if signatures:
            return [("provider_specific_fields", {"thought_signatures": signatures})]
    return []


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else "" if value is None else dumps(value).decode("utf-8")


def _unreadable(why: str) -> ProviderError:
    return ProviderError(Fault.TRANSIENT, f"the reply can't be read as a chat completion: {why}", lost=True)
