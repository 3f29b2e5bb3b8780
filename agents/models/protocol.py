"""The seam between the gateway and an adapter: an adapter sends one request once, and says plainly what came back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, Protocol, TypeAlias

from pydantic import Field, JsonValue

from agentctl.base.cancel import Cancel
from agentctl.base.messages import Part
from agentctl.base.values import Frozen

Kind: TypeAlias = Literal["live", "replay", "script", "human"]


class ModelSpec(Frozen):
    """A model: name and parameters. Two that differ in any field are two models.

    `name` is a provider's route as litellm writes it (`openai/gpt-5`, `anthropic/claude-sonnet-4-6`), or `replay:PATH`,
    `script:PATH`, `human`. With `api_base` the name is sent to that OpenAI-compatible endpoint by the direct client.
    What is None is left to the provider, or to the price table's facts.
    """

    name: str
    api_base: str | None = None
    client: Literal["auto", "direct", "litellm"] = "auto"
    stream: bool = True  # off for a server that can't
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, gt=0, le=1)
    seed: int | None = None  # of the provider's sampling
    effort: str | None = None  # of reasoning, in the provider's words
    thinking_budget: int | None = Field(default=None, ge=1)  # tokens of each reply; below the output limit
    service: Literal["standard", "flex", "priority"] = "standard"
    cache: Literal["auto", "off", "5m", "1h"] = "auto"  # how long marked prompts are kept; auto: 5m where they pay
    extra: dict[str, JsonValue] = Field(default_factory=dict)  # further parameters, sent as they are
    output_limit: int = Field(default=16_384, ge=1)  # tokens of each reply; the purse may lower it
    context_window: int | None = Field(default=None, ge=1)  # tokens
    body_limit: int | None = Field(default=None, ge=1)  # bytes that a request may have, images included
    native_tools: bool | None = None  # whether it takes tools and gives calls in fields of their own
    images: bool | None = None  # whether it takes images

    @property
    def told(self) -> bool:
        """Whether its replies are told by a file or a person, in one order for all that ask it."""
        return self.name == "human" or self.name.startswith(("script:", "replay:"))

    @property
    def direct(self) -> bool:
        """Whether it is reached by the direct client, not through litellm."""
        return self.client == "direct" or (self.client == "auto" and self.api_base is not None)


class FinishReason(StrEnum):
    STOP = "stop"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    REFUSED = "refused"
    OTHER = "other"


class RawCall(Frozen):
    """A call as the provider gave it: `arguments` is its text, unparsed; `id` may be empty or repeated."""

    id: str
    name: str
    arguments: str


class RawReply(Frozen):
    """One reply, as received. `parts` hold its text and opaque parts in order, never calls."""

    parts: tuple[Part, ...]
    calls: tuple[RawCall, ...] = ()
    finish: FinishReason
    finish_raw: str = ""
    refusal: str | None = None  # the provider's words, where it refused
    model: str = ""  # the name that the provider echoed
    usage: dict[str, JsonValue] | None = None  # as given; None when the provider sent none


@dataclass(frozen=True)
class EncodedMessage:
    """One message in OpenAI chat form, encoded once: `body` are its bytes, `tree` the same as a JSON tree."""

    number: int  # its number in the record
    body: bytes
    tree: dict[str, Any]
    images: int = 0
    image_tokens: int = 0  # about, by the size of the images: see `tokens`


@dataclass(frozen=True)
class EncodedTool:
    """One tool as it is offered in a request in OpenAI chat form, encoded once."""

    name: str
    body: bytes
    tree: dict[str, Any]


@dataclass(frozen=True)
class WireRequest:
    """One request, ready to send. `body` is the whole request in OpenAI chat form; its SHA-256 goes into the record."""

    role: str  # main, fast, vision, judge, summary
    model: ModelSpec
    messages: Sequence[EncodedMessage]
    tools: Sequence[EncodedTool]
    output_limit: int
    body: bytes
    timeout: float  # seconds
    marked: tuple[int, ...] = ()  # places of the messages that the provider's cache should keep the prompt up to


class Fault(StrEnum):
    """What kind of failure a send ended in. One table (`agents.ends`) says what follows from each."""

    TRANSIENT = "transient"  # 408, 409, 429, 5xx, time-outs, dropped connections, an overload told only in words
    AUTH = "auth"  # 401, 403: no key, wrong key
    REJECTED = "rejected"  # any other 4xx: sending it again would not help
    CONTEXT = "context"  # the request is longer than the model's window
    REFUSED = "refused"  # the provider's filter declined the request: the model's answer, not an outage
    EXHAUSTED = "exhausted"  # a replay has no further reply, for the run went another way; or a person left
    OVER = "over"  # a script has no further reply


DECLINED = (Fault.CONTEXT, Fault.REFUSED)
"""Faults that lie in what was asked. A helper's is an answer to whoever asked it, which may ask otherwise."""


class ProviderError(Exception):
    """A send that brought no reply."""

    def __init__(
        self,
        fault: Fault,
        words: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        lost: bool = False,
        absent: bool = False,
    ) -> None:
        super().__init__(words)
        self.fault = fault
        self.words = words
        self.status = status
        self.retry_after = retry_after  # seconds the provider asked to wait
        self.lost = lost  # an answer may have been made and billed that never arrived: the ticket stays uncertain
        self.absent = absent  # no server is at an address near by: it takes a person to start it
        self.usage: dict[str, JsonValue] | None = None  # as the provider told it before a lost answer broke off


class ModelClient(Protocol):
    """An adapter. Sends exactly once: no retry, no cache, no change of the request."""

    @property
    def kind(self) -> Kind: ...

    def send(self, request: WireRequest, cancel: Cancel) -> RawReply:
        """The reply, or ProviderError, or Cancelled."""
        ...

    def close(self) -> None: ...
