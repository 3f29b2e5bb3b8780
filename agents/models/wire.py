"""Messages and tools as they are sent: the OpenAI chat form. (The request they make: `body`. What comes back: `reply`.)

Each message is encoded once, and its bytes are joined into each request that holds it. Rules:
- our call ids and tool names are made what every provider accepts: `c3.1` goes as `c00003001`, because Mistral wants
  exactly nine letters and digits;
- arguments always are the text of a JSON object. What the model wrote and did not parse goes as {"_unparsed": text};
- a tool message is text. An image that a tool gave travels in a user message after all results of the batch, which the
  renderer of the history makes; an image left in a Result is refused here;
- a provider's own parts (Opaque) go back under the key that held them, to the letter. Two keys are not plain members
  of the message: `content` (blocks that are not text, and a leading `<think>` text, which is put in front of the text
  again: some models need it, and the templates of the others cut it themselves) and `tool_calls` (one object a call,
  by position: what the calls held besides name, arguments and id).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from hashlib import sha256
from math import isfinite
from typing import Any

from pydantic import JsonValue

from agentctl.base.jsonio import dumps
from agentctl.base.messages import Call, ImageRef, Message, Opaque, Part, Result, Role, Text, ToolSpec
from agentctl.base.text import clean

from .protocol import EncodedMessage, EncodedTool, ModelSpec
from .tokens import image_tokens

# Routes of litellm whose rest is the name that the provider itself uses.
# fmt: off
ROUTES = frozenset((
    "openai", "custom_openai", "litellm_proxy", "hosted_vllm", "vllm", "lm_studio", "llamafile", "ollama",
    "ollama_chat", "openrouter", "together_ai", "fireworks_ai", "deepinfra", "nebius", "groq", "cerebras", "sambanova",
    "perplexity", "deepseek", "mistral", "xai", "moonshot", "dashscope", "zai",
))
# fmt: on
_OUR_ID = re.compile(r"c(\d{1,5})\.(\d{1,3})", re.ASCII)
_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9_-]")


def wire_id(call_id: str) -> str:
    """Our id of a call as every provider accepts it: nine letters and digits."""
    if found := _OUR_ID.fullmatch(call_id):
        return f"c{int(found[1]):05}{int(found[2]):03}"
    return f"x{sha256(call_id.encode('utf-8', 'replace')).hexdigest()[:8]}"


def wire_name(tool: str) -> str:
    """A tool's name as every provider accepts it in a call: a model may have made one up that none does."""
    return _NOT_IN_A_NAME.sub("_", tool)[:64] or "unnamed"


def sent_name(model: ModelSpec) -> str:
    """The name that the endpoint is sent: without litellm's route in front (`openai/gpt-5` is `gpt-5`)."""
    route, slash, rest = model.name.partition("/")
    return rest if slash and route in ROUTES else model.name


def encode(message: Message, number: int, *, images: Callable[[ImageRef], bytes]) -> EncodedMessage:
    """`message` in chat form. `images` gives the bytes of an image's file; `number` is the message's in the record.

    ValueError for a part that has no place in a message of its role: a fault of the caller.
    """
    match message.role:
        case Role.SYSTEM | Role.USER:
            tree = _said(message, images)
        case Role.ASSISTANT:
            tree = _assistant(message)
        case Role.TOOL:
            tree = _tool(message)
    try:
        body = dumps(tree)
    except UnicodeEncodeError:
        tree = {key: legal(value) for key, value in tree.items()}
        body = dumps(tree)
    pictured = [part for part in message.parts if isinstance(part, ImageRef)]
    return EncodedMessage(number, body, tree, len(pictured), sum(image_tokens(image) for image in pictured))


def _said(message: Message, images: Callable[[ImageRef], bytes]) -> dict[str, Any]:
    content: list[dict[str, Any]] = []
    for part in message.parts:
        match part:
            case Text():
                content.append({"type": "text", "text": part.text})
            case ImageRef():
                data = base64.b64encode(images(part)).decode("ascii")
                content.append({"type": "image_url", "image_url": {"url": f"data:{part.media_type};base64,{data}"}})
            case _:
                raise _misplaced(part, message.role)
    plain = all(block["type"] == "text" for block in content)
    return {"role": message.role.value, "content": message.text() if plain else content}


def _assistant(message: Message) -> dict[str, Any]:
    tree: dict[str, Any] = {"role": "assistant", "content": _assistant_content(message)}
    calls = [_call(part) for part in message.parts if isinstance(part, Call)]
    for part in message.parts:
        match part:
            case Opaque(field="tool_calls", data=list(extras)) if len(extras) == len(calls):
                for call, extra in zip(calls, extras, strict=True):
                    _add(call, extra)
            case Opaque(field="content" | "tool_calls" | "role"):
                pass
            case Opaque():
                tree[part.field] = part.data
            case ImageRef() | Result():
                raise _misplaced(part, message.role)
    if calls:
        tree["tool_calls"] = calls
        tree["content"] = tree["content"] or None
    return tree


def _assistant_content(message: Message) -> str | list[Any]:
    own = [part.data for part in message.parts if isinstance(part, Opaque) and part.field == "content"]
    if all(isinstance(data, str) for data in own):
        return "".join(str(data) for data in own) + message.text()
    blocks: list[Any] = []
    for part in message.parts:
        if isinstance(part, Text):
            blocks.append({"type": "text", "text": part.text})
        elif isinstance(part, Opaque) and part.field == "content":
            blocks.append(part.data)
    return blocks


def _call(call: Call) -> dict[str, Any]:
    arguments: JsonValue = {"_unparsed": call.raw} if call.arguments is None else dict(call.arguments)
    text = dumps(legal(arguments)).decode("utf-8")
    return {
        "id": wire_id(call.id),
        "type": "function",
        "function": {"name": wire_name(call.name), "arguments": text},
    }


def _add(call: dict[str, Any], extra: JsonValue) -> None:
    """Give a call back what the provider had in it besides its name, arguments and id."""
    if isinstance(extra, dict):
        inner = extra.get("function")
        call |= {key: value for key, value in extra.items() if key not in ("id", "type", "function")}
        if isinstance(inner, dict):
            call["function"] |= {key: value for key, value in inner.items() if key not in ("name", "arguments")}


def _tool(message: Message) -> dict[str, Any]:
    if len(message.parts) != 1 or not isinstance(message.parts[0], Result):
        raise ValueError("a tool message holds exactly one result")
    result = message.parts[0]
    for part in result.parts:
        if isinstance(part, ImageRef):
            raise ValueError("an image of a result travels in a user message after the results")
    content = "\n".join(part.text for part in result.parts if isinstance(part, Text))
    return {"role": "tool", "tool_call_id": wire_id(result.call_id), "content": content}


def _misplaced(part: Part, role: Role) -> ValueError:
    return ValueError(f"a message of the role {role.value} can't hold a part of the kind {part.kind}")


def legal(value: JsonValue) -> JsonValue:
    """`value` as JSON can hold it: lone surrogates replaced, NaN and the infinities null."""
    match value:
        case str():
            return clean(value)
        case float():
            return value if isfinite(value) else None
        case list():
            return [legal(item) for item in value]
        case dict():
            return {clean(key): legal(item) for key, item in value.items()}
    return value


def encode_tool(tool: ToolSpec) -> EncodedTool:
    """A tool as it is offered in a request."""
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    tree = {"type": "function", "function": function}
    return EncodedTool(tool.name, dumps(tree), tree)
