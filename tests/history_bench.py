"""For tests: histories over states of any shape, with a gateway, a record and a transcript that are real."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import tiktoken
from agent import check_pairs

from agentctl.agents.asking import Asking
from agentctl.agents.events import Condensed
from agentctl.agents.history.condense import CondensedHistory
from agentctl.agents.models.gateway import Gateway
from agentctl.agents.models.protocol import FinishReason, Kind, ModelSpec, ProviderError, RawReply, WireRequest
from agentctl.agents.models.route import Route
from agentctl.agents.pricing import CacheMarkers, Free, Pricing
from agentctl.agents.protocols import PROTOCOLS
from agentctl.agents.purse import Purse
from agentctl.agents.reading import RecordReader
from agentctl.agents.record import Record
from agentctl.agents.secrets import Secrets
from agentctl.agents.state import State, Step
from agentctl.agents.transcript import Transcript
from agentctl.agents.usage import Usage
from agentctl.base.cancel import Cancel
from agentctl.base.jsonio import dumps
from agentctl.base.messages import Call, ImageRef, Message, Opaque, Part, Result, Role, Text


def png(record: Record, size: int, width: int, height: int) -> ImageRef:
    """An image of so many bytes. Nothing between tool and provider looks into one."""
    return record.keep_image(random.Random(width).randbytes(size), "image/png", width, height)


@cache
def _pool() -> str:
    """Words, numbers, paths and lines, as tools give them."""
    chance = random.Random(1)
    kinds = (
        lambda: "".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(2, 9))),
        lambda: f"{chance.random():.6f}",
        lambda: f"/results/{chance.randint(0, 9999)}.csv",
        lambda: f"{chance.getrandbits(128):x}",
    )
    return "".join(chance.choice(kinds)() + chance.choice(" \n,") for _ in range(20_000))


def prose(characters: int, seed: int) -> str:
    """So long a text, the same for the same seed."""
    pool = _pool()
    start = seed * 7_919 % len(pool)
    return (pool[start:] + pool * (characters // len(pool) + 1))[:characters]


def step(
    index: int,
    *,
    calls: int = 1,
    characters: int = 400,
    usage: Usage | None = None,
    images: Sequence[ImageRef] = (),
    thinking: bool = False,
    notes: tuple[str, ...] = (),
) -> Step:
    """A complete step: so many calls, each with a result of so many characters; the images are in the first."""
    made = tuple(
        Call(id=f"c{index}.{n}", name="bash", arguments={"command": f"cat {index}-{n}"}) for n in range(1, calls + 1)
    )
    thought: tuple[Part, ...] = ()
    if thinking:
        thought = (Opaque(provider="p", field="reasoning_content", data=f"thought {index}"),)
    said = (Text(text=f"Step {index}. {'Calls.' if calls else ''}"),)
    results = tuple(
        Result(
            call_id=call.id,
            parts=(Text(text=prose(characters, index * 1000 + n)), *(images if n == 0 else ())),
        )
        for n, call in enumerate(made)
    )
    return Step(index, Message(role=Role.ASSISTANT, parts=(*thought, *said, *made)), results, notes, True, usage)


@dataclass
class Model:
    """Says `main` as the main model and what `summary` makes of the request as the one that sums up."""

    summary: Callable[[WireRequest], str | ProviderError] = lambda request: "All of it in short."
    main: Sequence[RawReply | ProviderError] = ()
    usage: Mapping[str, Any] | None = None
    received: list[WireRequest] = field(default_factory=list)
    kind: Kind = "script"

    def send(self, request: WireRequest, cancel: Cancel) -> RawReply:
        self.received.append(request)
        said = self.summary(request) if request.role == "summary" else self.main[len(self.of("main")) - 1]
        if isinstance(said, ProviderError):
            raise said
        if isinstance(said, RawReply):
            return said
        usage = dict(self.usage) if self.usage else None
        return RawReply(parts=(Text(text=said),), finish=FinishReason.STOP, usage=usage)

    def of(self, role: str) -> list[WireRequest]:
        return [request for request in self.received if request.role == role]

    def close(self) -> None:
        pass


PREFIX = (
    Message(role=Role.SYSTEM, parts=(Text(text="You are tested."),)),
    Message(role=Role.USER, parts=(Text(text='Answer: {"accuracy of the model": ...}'),)),
)


class Bench:
    """A history that condenses, and what it sends."""

    def __init__(
        self,
        folder: Path,
        model: Model | None = None,
        *,
        protocol: str = "native",
        window: int = 20_000,
        price: Pricing | None = None,
        markers: CacheMarkers = CacheMarkers.NONE,
        prefix: tuple[Message, ...] = PREFIX,
        most_steps: int = 200,
        body_limit: int = 20_000_000,
        cap: Decimal | None = None,
        spec: ModelSpec | None = None,
        kept: Decimal | None = None,
    ) -> None:
        self.model = model or Model()
        self.record = Record(folder / "record", dumps({"for": "a test"}), Secrets({}), now=lambda: 0.0)
        spec = spec or ModelSpec(name="scripted", output_limit=2_000)
        price = price or Free(name="scripted")
        route = Route(spec, self.model, price, window, markers=markers, body_limit=body_limit)
        self.gateway = Gateway({"main": route}, Purse(cap), self.record, Cancel())
        self.transcript = Transcript(self.record, Secrets({}))
        self.asker = Asking(self.gateway, self.transcript)
        self.history = CondensedHistory(
            PROTOCOLS[protocol], self.transcript, (), self.asker, self.record.emit, (), most_steps, lambda: kept
        )
        self.state = State(prefix)

    def add(self, *steps: Step) -> None:
        """Take each of the steps, as the loop does."""
        for each in steps:
            self.sent()
            self.state.put(each)
            self.history.settle(self.state)

    def sent(self) -> list[dict[str, Any]]:
        """The messages of the next request."""
        return [message.tree for message in self.history.render(self.state)]

    @property
    def condensed(self) -> list[Condensed]:
        reader = RecordReader(self.record.folder)
        return [event for event in reader.events if isinstance(event, Condensed)]


def text_of(messages: Sequence[Mapping[str, Any]]) -> str:
    """All text that is sent, images' data left out."""
    return json.dumps([without_data(message) for message in messages], ensure_ascii=False)


def without_data(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: "" if key == "image_url" else without_data(value) for key, value in tree.items()}
    return [without_data(item) for item in tree] if isinstance(tree, list) else tree


@cache
def encoding(name: str) -> tiktoken.Encoding:
    """An encoding as its maker defines it, from the files that litellm brings."""
    litellm = find_spec("litellm")
    assert litellm and litellm.origin
    folder = Path(litellm.origin).with_name("litellm_core_utils") / "tokenizers"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIKTOKEN_CACHE_DIR", str(folder))
        return tiktoken.get_encoding(name)


def tokens(messages: Sequence[Mapping[str, Any]]) -> int:
    """Tokens of all that is sent but images, their keys and marks included, as the encoding's maker counts them."""
    return sum(_tokens(text_of([message])) for message in messages)


@cache
def _tokens(text: str) -> int:
    real = encoding("cl100k_base")
    return sum(len(real.encode_ordinary(text[at : at + 9_999])) for at in range(0, len(text), 9_999))


def check_legal(messages: Sequence[Mapping[str, Any]], protocol: str) -> None:
    """Calls and results stay together, and so do a reply and its thinking; the prompt stands first."""
    check_pairs(messages)
    text = text_of(messages)
    assert messages[0]["content"] == PREFIX[0].text() and "accuracy of the model" in str(messages[1]["content"])
    for place, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        index = re.search(r"Step (\d+)\.", str(message["content"]))
        assert index, message
        called = "Calls." in str(message["content"])
        if f'thought {index[1]}"' in text:
            assert message["reasoning_content"] == f"thought {index[1]}"
        if protocol != "native" and called:  # results are told in the message after the reply
            assert messages[place + 1]["role"] == "user" and "bash" in str(messages[place + 1]["content"])
