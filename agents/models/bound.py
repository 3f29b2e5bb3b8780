"""How many tokens a prompt can have at most, before it is sent, whatever the provider's tokenizer.

Two facts hold for every tokenizer in use: a token is at least one byte of text, and messages together come to what each
of them does, plus a few tokens of framing. So a prompt is bounded by its bytes; and where an earlier prompt was billed,
by that prompt plus the bytes of the messages that were not in it. The second holds after a rewrite too, since dropping
messages adds nothing. The smaller bound counts. A guess from characters per token would be closer, and would let a cap
be passed by a text of digits or of rare letters.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentctl.agents.usage import Usage

from .protocol import EncodedMessage, EncodedTool

REQUEST_TOKENS = 1_024  # what a provider puts around any prompt; Anthropic's words about tools are the longest known
MESSAGE_TOKENS = 16  # role marks and separators of one message
TOOL_TOKENS = 32  # the same of one tool's declaration
IMAGE_TOKENS = 12_288  # the most that a current model makes of one image: 10,000 patches at 1.2 tokens
_HUNGRY = {"gpt-4o-mini": 48_169}  # it counts an image's tiles 33 times as high as its siblings: 2,833 + 8 x 5,667
_REMEMBERED = 3  # earlier prompts of one role: a summary in between must not lose the conversation's


@dataclass(frozen=True)
class PromptBound:
    """The most that a prompt can hold, in tokens; `images` says whether any of it may be billed as images."""

    tokens: int
    images: bool


@dataclass(frozen=True)
class _Billed:
    """A prompt that was billed: its tokens, as reported."""

    messages: tuple[EncodedMessage, ...]
    tools: Sequence[EncodedTool]
    tokens: int
    images: bool

    def had(self, tools: Sequence[EncodedTool]) -> bool:
        return tools is self.tools or tools == self.tools

    def begins(self, messages: tuple[EncodedMessage, ...]) -> bool:
        """Whether `messages` are these and more. Compares identities first, so a long history costs microseconds."""
        return messages[: len(self.messages)] == self.messages


class PromptMeter:
    """Bounds the prompts of one role, and learns from each that is billed. May be used from several threads."""

    def __init__(self, model: str) -> None:
        self._image_tokens = next((most for name, most in _HUNGRY.items() if name in model), IMAGE_TOKENS)
        self._billed: deque[_Billed] = deque(maxlen=_REMEMBERED)
        self._lock = threading.Lock()

    def bound(self, messages: Sequence[EncodedMessage], tools: Sequence[EncodedTool]) -> PromptBound:
        """The most tokens that a prompt of `messages` and `tools` can have."""
        whole = tuple(messages)
        with self._lock:
            billed = tuple(reversed(self._billed))
        last = billed[0] if billed else None
        if last and last.had(tools) and last.begins(whole):
            return self._plus(last, last.tokens, whole[len(last.messages) :])
        bounds = [self._of_all(whole, tools), *(self._beyond(earlier, whole, tools) for earlier in billed)]
        return min(bounds, key=lambda bound: bound.tokens)

    def learn(
        self, messages: Sequence[EncodedMessage], tools: Sequence[EncodedTool], usage: Usage, *, images: bool
    ) -> None:
        """A prompt was billed. A count that no provider reported proves nothing, and is not kept."""
        if usage.prompt_tokens and not usage.estimated_prompt_tokens:
            with self._lock:
                self._billed.append(_Billed(tuple(messages), tools, usage.prompt_tokens, images))

    def _of_all(self, messages: Sequence[EncodedMessage], tools: Sequence[EncodedTool]) -> PromptBound:
        tokens = REQUEST_TOKENS + _of_tools(tools) + sum(self._of_message(message) for message in messages)
        return PromptBound(tokens, any(message.images for message in messages))

    def _beyond(
        self, earlier: _Billed, messages: Sequence[EncodedMessage], tools: Sequence[EncodedTool]
    ) -> PromptBound:
        """What `earlier` came to, and all that it did not hold."""
        tokens = earlier.tokens if earlier.had(tools) else earlier.tokens + REQUEST_TOKENS + _of_tools(tools)
        held = {message.number: message for message in earlier.messages}  # one that comes twice was billed once
        new = [message for message in messages if held.pop(message.number, None) != message]
        return self._plus(earlier, tokens, new)

    def _plus(self, earlier: _Billed, tokens: int, new: Sequence[EncodedMessage]) -> PromptBound:
        total = tokens + sum(self._of_message(message) for message in new)
        return PromptBound(total, earlier.images or any(message.images for message in new))

    def _of_message(self, message: EncodedMessage) -> int:
        text = len(message.body) - (_image_bytes(message.tree) if message.images else 0)
        return text + MESSAGE_TOKENS + message.images * self._image_tokens


def _of_tools(tools: Sequence[EncodedTool]) -> int:
    return sum(len(tool.body) + TOOL_TOKENS for tool in tools)


def _image_bytes(tree: Mapping[str, Any]) -> int:
    """Bytes of a message that are an image's data, not text."""
    content = tree.get("content")
    parts = content if isinstance(content, list) else []
    urls = [part["image_url"]["url"] for part in parts if part.get("type") == "image_url"]
    return sum(len(url) for url in urls)
