"""Thousands of random runs against a provider that keeps its own books: the cap is never passed by what it bills.

The provider is written apart from the product: it counts with a tokenizer of its own (any count up to a token a byte
and the framing), prices by its own reading of the price entry, writes caches where it may, reports its counts in any
dialect, or not at all, and honours the output limit. Calls run side by side, fail, lose answers and die.
"""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pytest

from agentctl.agents.models.bound import IMAGE_TOKENS, MESSAGE_TOKENS, REQUEST_TOKENS, TOOL_TOKENS
from agentctl.agents.models.call import LEAST_USEFUL_OUTPUT
from agentctl.agents.models.gateway import Gateway, ModelFailed
from agentctl.agents.models.journal import EarlierBooks, Noted, ReplyCame, RequestSent, SendFailed, carried
from agentctl.agents.models.protocol import (
    EncodedMessage,
    EncodedTool,
    Fault,
    FinishReason,
    Kind,
    ModelSpec,
    ProviderError,
    RawCall,
    RawReply,
    WireRequest,
)
from agentctl.agents.models.retry import RetryPolicy
from agentctl.agents.models.route import Route
from agentctl.agents.models.wire import encode_tool
from agentctl.agents.price_table import Entries, PriceTable
from agentctl.agents.pricing import CacheMarkers, Price
from agentctl.agents.purse import CapReached, Purse
from agentctl.base.cancel import Cancel
from agentctl.base.jsonio import dumps
from agentctl.base.messages import Text, ToolSpec

SUFFIX = {"standard": "", "flex": "_flex", "priority": "_priority", "batch": "_batches"}
TOOLS = [encode_tool(ToolSpec(name=name, description="", parameters={"type": "object"})) for name in ("bash", "finish")]


class Killed(BaseException):
    """The process dies here."""


# Prices


def random_entry(dice: random.Random) -> dict[str, Any]:
    """A model's prices in the form of the bundled table, with the oddities that occur there."""

    def rate(low: float = 0.1, high: float = 30) -> str:
        return f"{dice.uniform(low, high) * 1e-6:.12f}"

    entry: dict[str, Any] = {"litellm_provider": dice.choice(["acme", "xai", "anthropic"])}
    names = ["input_cost_per_token", "output_cost_per_token"]
    optional = [
        "cache_read_input_token_cost",
        "cache_creation_input_token_cost",
        "cache_creation_input_token_cost_above_1hr",
        "input_cost_per_image_token",
        "output_cost_per_reasoning_token",
    ]
    names += [name for name in optional if dice.random() < 0.5]
    for name in names:
        entry[name] = rate()
        for service in ("flex", "priority"):
            if dice.random() < 0.3:
                entry[name + SUFFIX[service]] = rate()
        if dice.random() < 0.5:
            entry[f"{name}_above_{dice.choice([1, 3, 9])}k_tokens"] = rate(0.1, 60)
    if dice.random() < 0.3:
        entry |= {name + SUFFIX["batch"]: rate() for name in names}
    if dice.random() < 0.2:
        entry["input_cost_per_request"] = rate(0, 5000)
    if dice.random() < 0.2:
        edges = [0, *sorted(dice.sample(range(500, 9000), 2))]
        entry["tiered_pricing"] = [
            {"range": [low, low + 1], "input_cost_per_token": rate(), "output_cost_per_token": rate()} for low in edges
        ]
    return entry


def billed_rates(entry: dict[str, Any], prompt: int, service: str) -> dict[str, Decimal]:
    """What the provider charges a token of each class in a request of that size."""
    if "tiered_pricing" in entry:
        tiers = sorted(entry["tiered_pricing"], key=lambda tier: tier["range"][0])
        entry = {
            "litellm_provider": "",
            **[tier for tier in tiers if prompt > tier["range"][0] or tier is tiers[0]][-1],
        }
        service = "standard"

    def crossed(edge: int) -> bool:
        return prompt > edge or (prompt == edge and entry["litellm_provider"] == "xai")

    suffixes = [SUFFIX[service]] + ([""] if service in ("flex", "priority") else [])
    edges = [f"_above_{edge}k_tokens" for edge in (9, 3, 1) if crossed(edge * 1000)]

    def rate(name: str) -> tuple[int, Decimal] | None:
        keys = [name + edge + suffix for edge in edges for suffix in suffixes] + [name + suffix for suffix in suffixes]
        return next(((at, Decimal(entry[key])) for at, key in enumerate(keys) if key in entry), None)

    fresh, output = rate("input_cost_per_token"), rate("output_cost_per_token")
    assert fresh and output
    write = rate("cache_creation_input_token_cost") or fresh
    hour = rate("cache_creation_input_token_cost_above_1hr")
    thought = rate("output_cost_per_reasoning_token")
    twice = write[1] == fresh[1] * Decimal("1.25")
    return {
        "fresh": fresh[1],
        "read": (rate("cache_read_input_token_cost") or fresh)[1],
        "short": write[1],
        "long": hour[1] if hour else 2 * fresh[1] if twice else write[1],
        "image": (rate("input_cost_per_image_token") or fresh)[1],
        "output": output[1],
        "thought": thought[1] if thought and thought[0] <= output[0] else output[1],
    }


# The provider


@dataclass
class Habits:
    """What a run's provider is like. Chances from 0 to 1."""

    density: float  # of its tokenizer: 1 is a token a byte
    error: float
    lost: float
    death: float
    uncounted: float
    partly_counted: float
    greed: float  # how often a reply uses all that it may

    @classmethod
    def draw(cls, dice: random.Random) -> Habits:
        def maybe(chance: float, most: float) -> float:
            return dice.uniform(0, most) if dice.random() < chance else 0.0

        return cls(
            density=dice.choice([1.0, 1.0, dice.uniform(0.15, 1)]),
            error=maybe(0.5, 0.3),
            lost=maybe(0.4, 0.2),
            death=maybe(0.4, 0.15),
            uncounted=maybe(0.15, 0.5),
            partly_counted=maybe(0.1, 0.5),
            greed=dice.random(),
        )


@dataclass
class Provider:
    """Bills what it says it does, and remembers it."""

    dice: random.Random
    entry: dict[str, Any]
    service: str
    markers: CacheMarkers
    habits: Habits
    kind: Kind = "live"
    billed: Decimal = Decimal(0)
    prompts: list[tuple[str, frozenset[int], int]] = field(default_factory=list)  # reported: role, messages, tokens
    lost: int = 0
    guessed: int = 0  # replies whose counts were not reported
    lock: threading.Lock = field(default_factory=threading.Lock)

    def close(self) -> None:
        """Nothing is held."""

    def send(self, request: WireRequest, cancel: Cancel) -> RawReply:
        with self.lock:  # its dice and books are one; the calls still overlap in the gateway
            return self._answer(request)

    def _answer(self, request: WireRequest) -> RawReply:
        assert json.loads(request.body)["max_tokens"] == request.output_limit
        if self.dice.random() < self.habits.error:
            raise ProviderError(Fault.TRANSIENT, "busy", status=503)
        text, images = self._count(request)
        output = request.output_limit
        if self.dice.random() >= self.habits.greed:
            output = self.dice.randint(1, min(output, 3000))
        parts = self._parts(text, images, marked=bool(request.marked))
        thoughts = self.dice.choice([0, 0, output // 2])
        if self.dice.random() < self.habits.lost:
            self.lost += 1
            error = ProviderError(Fault.TRANSIENT, "reset", lost=True)
            if self.dice.random() < 0.6:
                self._bill(parts, output, thoughts)
                if self.dice.random() < 0.5:  # it broke off after some of it was told
                    told = self.dice.randint(0, output)
                    error.usage = _raw("openai_chat", parts, told, min(thoughts, told))
            raise error
        self._bill(parts, output, thoughts)
        if request.role == "main" and self.dice.random() < self.habits.death:
            raise Killed
        answer = self._reply(parts, output, thoughts)
        if answer.usage and not answer.usage.keys().isdisjoint(("prompt_tokens", "input_tokens")):
            self.prompts.append((request.role, frozenset(m.number for m in request.messages), text + images))
        return answer

    def _count(self, request: WireRequest) -> tuple[int, int]:
        """Tokens of text and of images in a prompt, by a tokenizer that gives the same text the same count."""
        text = images = 0
        for message in request.messages:
            size = len(message.body)
            if message.images:
                size -= sum(len(part["image_url"]["url"]) for part in message.tree["content"] if "image_url" in part)
                images += message.images * (IMAGE_TOKENS if self.habits.density == 1 else 900)
            text += int(size * self.habits.density) + int(MESSAGE_TOKENS * self.habits.density)
        for tool in request.tools:
            text += int((len(tool.body) + TOOL_TOKENS) * self.habits.density)
        return text + int(REQUEST_TOKENS * self.habits.density), images

    def _parts(self, text: int, images: int, *, marked: bool) -> dict[str, int]:
        """A prompt's tokens by class, as the caches happen to be."""
        left = text
        parts = {"read": 0, "short": 0, "long": 0}
        may = {"read"}
        if marked or self.entry["litellm_provider"] != "anthropic":
            may.add("short")
        if marked and self.markers is CacheMarkers.ONE_HOUR:
            may.add("long")
        for name in sorted(may, key=lambda _: self.dice.random()):
            parts[name] = self.dice.choice([0, left, self.dice.randint(0, left)])
            left -= parts[name]
        return parts | {"fresh": left, "image": images}

    def _bill(self, parts: dict[str, int], output: int, thoughts: int) -> None:
        rates = billed_rates(self.entry, sum(parts.values()), self.service)
        self.billed += sum((count * rates[name] for name, count in parts.items()), Decimal(0))
        self.billed += (output - thoughts) * rates["output"] + thoughts * rates["thought"]
        if "tiered_pricing" not in self.entry:
            self.billed += Decimal(self.entry.get("input_cost_per_request", 0))

    def _reply(self, parts: dict[str, int], output: int, thoughts: int) -> RawReply:
        dialect = "openai_chat" if parts["image"] or self.dice.random() < 0.6 else "anthropic_messages"
        usage: dict[str, Any] | None = _raw(dialect, parts, output, thoughts)
        chance = self.dice.random()
        if chance < self.habits.uncounted:
            usage = None
        elif usage and chance < self.habits.uncounted + self.habits.partly_counted:
            del usage[
                self.dice.choice(
                    ["prompt_tokens", "completion_tokens"]
                    if dialect == "openai_chat"
                    else ["input_tokens", "output_tokens"]
                )
            ]
        whole = usage is not None and len(usage) == len(_raw(dialect, parts, output, thoughts))
        self.guessed += not whole
        shown = "w" * (output - thoughts)  # a token a byte, so that its bytes show what it counted
        call = RawCall(id="x", name="bash", arguments="{}")
        return RawReply(
            parts=(Text(text=shown),),
            calls=(call,),
            finish=FinishReason.TOOL_CALLS,
            usage=usage,
        )


def _raw(dialect: str, parts: dict[str, int], output: int, thoughts: int) -> dict[str, Any]:
    lifetimes = {"ephemeral_5m_input_tokens": parts["short"], "ephemeral_1h_input_tokens": parts["long"]}
    if dialect == "anthropic_messages":
        return {
            "input_tokens": parts["fresh"],
            "cache_read_input_tokens": parts["read"],
            "cache_creation_input_tokens": parts["short"] + parts["long"],
            "cache_creation": lifetimes,
            "output_tokens": output,
            "output_tokens_details": {"thinking_tokens": thoughts},
        }
    return {
        "prompt_tokens": sum(parts.values()),
        "completion_tokens": output,
        "prompt_tokens_details": {
            "cached_tokens": parts["read"],
            "cache_creation_tokens": parts["short"] + parts["long"],
            "cache_creation_token_details": lifetimes,
            "image_tokens": parts["image"],
        },
        "completion_tokens_details": {"reasoning_tokens": thoughts},
    }


# The run


class Log:
    """A journal that outlives the deaths of a run."""

    def __init__(self) -> None:
        self.events: list[RequestSent | ReplyCame | SendFailed | Noted] = []

    def request(self, event: RequestSent) -> None:
        self.events.append(event)

    def reply(self, event: ReplyCame, raw: RawReply) -> None:
        self.events.append(event)

    def failed(self, event: SendFailed) -> None:
        self.events.append(event)

    def note(self, event: Noted) -> None:
        self.events.append(event)


def message(number: int, role: str, size: int, images: int = 0) -> EncodedMessage:
    content: Any = "é" * (size // 2)
    if images:
        picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 4000}}
        content = [{"type": "text", "text": content}, *[picture] * images]
    tree = {"role": role, "content": content}
    return EncodedMessage(number, dumps(tree), tree, images)


class Run:
    """One random run: started, killed and started again, until its cap is reached or it has done enough."""

    def __init__(self, seed: int) -> None:
        self.dice = dice = random.Random(seed)
        entry = random_entry(dice)
        price = PriceTable(Entries(json.dumps({"m": entry}).encode(), "test", "1")).lookup("m")
        assert isinstance(price, Price)
        self.markers = dice.choice(list(CacheMarkers))
        self.service = dice.choice(list(price.schedules))
        self.provider = Provider(dice, entry, self.service.value, self.markers, Habits.draw(dice))
        self.spec = ModelSpec(name="m", output_limit=dice.choice([400, 2_000, 8_000, 16_384]))
        self.price = price
        rough = 20_000 * max(sum(Decimal(entry[f"{side}_cost_per_token"]) for side in ("input", "output")), Decimal(0))
        self.cap = (rough * Decimal(dice.uniform(0.2, 12))).quantize(Decimal("0.0001"))
        self.log = Log()
        self.numbers = 0
        self.history = [self._new("system", 400), self._new("user", 900)]
        self.deaths = 0
        self.reached: list[tuple[CapReached, Decimal]] = []

    def _new(self, role: str, most: int, images: int = 0) -> EncodedMessage:
        self.numbers += 1
        return message(self.numbers, role, self.dice.randint(1, most), images)

    def play(self) -> Purse:
        """Go on until the end. Returns the purse of the last start."""
        while True:
            books = carried(self.log.events)
            purse = Purse(self.cap, carried_spent=books.spent, carried_uncertain=books.uncertain)
            gateway = self._gateway(purse, books)
            try:
                for _ in range(self.dice.randint(6, 18)):
                    self._step(gateway)
                    if self.reached:
                        return purse
                return purse
            except Killed:
                self.deaths += 1
            except ModelFailed:
                return purse

    def _gateway(self, purse: Purse, books: EarlierBooks) -> Gateway:
        route = Route(self.spec, self.provider, self.price, service=self.service, markers=self.markers, reasoning=True)
        return Gateway(
            {"main": route},
            purse,
            self.log,
            Cancel(),
            policy=RetryPolicy(tries=4),
            first_send=books.sends + 1,
            sleep=lambda seconds: None,
        )

    def _step(self, gateway: Gateway) -> None:
        self._ask(gateway, "main", tuple(self.history), TOOLS)
        self.history.append(self._new("assistant", 3_000))
        self.history.append(self._new("user", 1_500, images=self.dice.choice([0, 0, 0, 0, 1])))
        if self.dice.random() < 0.15:
            self.history[2 : self.dice.randint(2, len(self.history))] = [self._new("user", 600)]
        if self.dice.random() < 0.3:
            helpers = [
                threading.Thread(target=self._ask, args=(gateway, "vision", (self._new("user", 200, images=1),), ()))
                for _ in range(self.dice.randint(2, 3))
            ]
            for helper in helpers:
                helper.start()
            for helper in helpers:
                helper.join()

    def _ask(
        self, gateway: Gateway, role: str, messages: Sequence[EncodedMessage], tools: Sequence[EncodedTool]
    ) -> None:
        try:
            gateway.ask(role, messages, tools)
        except CapReached as reached:
            self.reached.append((reached, self._least_useful(role, messages, tools)))
        except ModelFailed:
            if role == "main":
                raise

    def _least_useful(self, role: str, messages: Sequence[EncodedMessage], tools: Sequence[EncodedTool]) -> Decimal:
        """The most that the refused call could have cost with the least useful output, worked out apart."""
        sizes = {m.number: len(m.body) + MESSAGE_TOKENS + m.images * IMAGE_TOKENS for m in messages}
        everything = REQUEST_TOKENS + sum(sizes.values()) + sum(len(tool.body) + TOOL_TOKENS for tool in tools)
        bounds = [everything]
        with self.provider.lock:
            earlier = [(numbers, tokens) for known, numbers, tokens in self.provider.prompts if known == role][-1:]
        if role == "main" and not self.deaths:
            bounds += [t + sum(size for number, size in sizes.items() if number not in n) for n, t in earlier]
        tokens = min(bounds)
        edges = [0, tokens, *(e for e in (1, 1000, 1001, 3000, 3001, 9000, 9001) if e <= tokens)]
        edges += [
            tier["range"][0] + 1 for tier in self.provider.entry.get("tiered_pricing", ()) if tier["range"][0] < tokens
        ]
        rates = [billed_rates(self.provider.entry, edge, self.service.value) for edge in edges]
        dearest = max(rate for each in rates for name, rate in each.items() if name not in ("output", "thought"))
        output = max(max(each["output"], each["thought"]) for each in rates)
        fee = Decimal(self.provider.entry.get("input_cost_per_request", 0))
        return tokens * dearest + output * min(LEAST_USEFUL_OUTPUT, self.spec.output_limit) + fee


@pytest.mark.parametrize("runs", [300, pytest.param(10_000, marks=pytest.mark.stress)])
def test_the_cap_is_never_passed(runs: int) -> None:
    ended, exact, deaths, lost = 0, 0, 0, 0
    for seed in range(runs):
        run = Run(seed)
        purse = run.play()
        billed = run.provider.billed
        assert billed <= run.cap, f"run {seed}: billed {billed} under a cap of {run.cap}"
        assert billed <= purse.spent + purse.uncertain, f"run {seed}: the books miss some of {billed}"
        assert not purse.broken and purse.open == 0, f"run {seed}"
        certain = run.provider.lost == 0 and run.deaths == 0
        if certain and run.provider.guessed == 0:
            assert purse.spent == billed, f"run {seed}: {purse.spent} on the books, {billed} billed"
            exact += 1
        for reached, least in run.reached:
            if certain:
                assert run.cap - reached.spent < least, f"run {seed} ended early: {reached}; {least} would do"
                assert not reached.because_uncertain
        ended += bool(run.reached)
        deaths += run.deaths
        lost += run.provider.lost
    assert min(ended, exact, deaths, lost) > runs / 10, "the runs are not what they were meant to be"
