"""Where prices come from: litellm's bundled table, read without litellm, under a user's file and flags.

The table's keys are litellm's own: `input_cost_per_token` and its kin in dollars per token, with `_above_200k_tokens`
for long prompts and `_batches`, `_flex`, `_priority` for service tiers, or `tiered_pricing` with ranges (low, high].
Discounts for hours of low load are left out, since a cap must hold at any hour.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

from agentctl.base.errors import SetupError
from agentctl.base.values import Frozen, plain_decimal

from .price_names import names_like
from .pricing import ZERO, Band, Free, Price, Pricing, Rates, ServiceTier, Unknown

Entry: TypeAlias = Mapping[str, Any]  # one model's part of a table in litellm's form

_SUFFIXES: dict[ServiceTier, tuple[str, ...]] = {
    ServiceTier.STANDARD: ("",),
    ServiceTier.FLEX: ("_flex", ""),
    ServiceTier.PRIORITY: ("_priority", ""),
    ServiceTier.BATCH: ("_batches",),  # a batch has its own prices or none
}
_THRESHOLD = re.compile(r"_above_(\d+k?)_tokens")
_INCLUSIVE = ("xai",)  # providers whose long-context price begins at the threshold itself
_DATE = re.compile(r"[-@](\d{8}|\d{4}-\d{2}-\d{2})$")
_MILLION = Decimal(1_000_000)


class TableOrigin(Frozen):
    """Which table a run's prices came from: entries disappear and prices change, so the record says it."""

    name: str
    version: str
    sha256: str


class ModelFacts(Frozen):
    """What the table tells of a model besides its price. None where it does not say."""

    max_input_tokens: int | None = None
    max_output_tokens: int | None = None
    native_tools: bool | None = None
    reasoning: bool | None = None
    images: bool | None = None  # whether it takes them; the table says so of those that do, and nothing of most others


class PriceTable:
    """Prices and facts by model name. `entries` give the table, `overrides` what a user said instead."""

    def __init__(
        self,
        entries: Entries,
        overrides: Mapping[str, Price | Free] | None = None,
        extra: Mapping[str, Entry] | None = None,
    ) -> None:
        self._entries = entries
        self._overrides = dict(overrides or {})
        self._extra = dict(extra or {})

    @property
    def origin(self) -> TableOrigin:
        return self._entries.origin

    def lookup(self, name: str) -> Pricing:
        """The price of the model that is asked for by `name`, with its route in front or without.

        The name that a provider echoes is never looked up: it is often a dated one, and is priced as the name asked.
        """
        for known in _names(name):
            if known in self._overrides:
                return self._overrides[known]
        found = self._find(name)
        if found is not None:
            price = price_of(found[0], found[1], self._source(found[0]))
            if price is not None:
                return price
        return self._unknown(name)

    def facts(self, name: str) -> ModelFacts:
        """What is known of the model `name`, or of the one it is a dated edition of."""
        found = self._find(name) or self._find(_DATE.sub("", name))
        entry = found[1] if found else {}
        listed = found is not None and found[0] not in self._extra
        return ModelFacts(
            max_input_tokens=_whole(entry.get("max_input_tokens")),
            max_output_tokens=_whole(entry.get("max_output_tokens")),
            native_tools=_flag(entry.get("supports_function_calling")),
            reasoning=_flag(entry.get("supports_reasoning")),
            images=_flag(entry.get("supports_vision", False if listed else None)),
        )

    def _find(self, name: str) -> tuple[str, Entry] | None:
        route, _, rest = name.partition("/")
        for known in _names(name):
            entry = self._extra.get(known)
            if entry is None:
                entry = self._entries.get(known)
                if entry is not None and known == rest and not _served_by(entry, route):
                    entry = None  # the same model somewhere else has another price
            if entry is None:
                continue
            alias = entry.get("alias_of")
            target = self._entries.get(alias) if isinstance(alias, str) else None
            return (known, entry) if target is None else (str(alias), {**target, **entry})
        return None

    def _source(self, name: str) -> str:
        return str(self._extra[name]["source"]) if name in self._extra else f"{self.origin.name} {self.origin.version}"

    def _unknown(self, name: str) -> Unknown:
        line = "IN,OUT"
        near = self._find(_DATE.sub("", name)) if _DATE.search(name) else None
        price = price_of(near[0], near[1], "") if near else None
        rates = price.rates(0) if price else None
        if near and rates:
            line = f"{plain_decimal(rates.input * _MILLION)},{plain_decimal(rates.output * _MILLION)}"
        hint = f" (as {near[0]}, if it costs the same)" if near and rates else ""
        alike = [] if rates else names_like(name, self._entries.all)
        meant = f"did you mean {' or '.join(alike)}? else " if alike else ""
        return Unknown(
            name=name,
            problem=f"no price is known for {name}",
            remedy=f"{meant}add --price '{name}={line}'{hint}, in dollars per million tokens, or --price '{name}=free'",
        )


def _names(name: str) -> tuple[str, ...]:
    rest = name.partition("/")[2]
    return (name, rest) if rest else (name,)


def _served_by(entry: Entry, route: str) -> bool:
    """Whether `entry` is of the provider that `route` names: the table's `bedrock_converse` is the route `bedrock`."""
    return str(entry.get("litellm_provider", "")).startswith(route)


def price_of(name: str, entry: Entry, source: str) -> Price | None:
    """The price that `entry` states, or None where it has none for tokens of text."""
    schedules = {}
    for service in ServiceTier:
        ranged = _by_range(entry, service)
        bands = _by_threshold(entry, service) if ranged is None else ranged
        if bands:
            schedules[service] = bands
    if ServiceTier.STANDARD not in schedules or _paid_otherwise(entry, schedules[ServiceTier.STANDARD]):
        return None
    with_markers = "claude" in name or "anthropic" in str(entry.get("litellm_provider", ""))
    return Price(name=name, source=source, schedules=schedules, writes_unasked=not with_markers)


def _paid_otherwise(entry: Entry, bands: Sequence[Band]) -> bool:
    """Whether tokens are 0 because something else is charged for: seconds, pictures, characters."""
    if any(band.rates.input or band.rates.output for band in bands):
        return False
    return any("_cost_per_" in key and "token" not in key and decimal(value) for key, value in entry.items())


def _by_threshold(entry: Entry, service: ServiceTier) -> tuple[Band, ...]:
    thresholds = sorted({text for key in entry for text in _THRESHOLD.findall(key)}, key=_tokens)
    inclusive = entry.get("litellm_provider") in _INCLUSIVE
    bands: list[Band] = []
    for count in range(len(thresholds) + 1):
        crossed = thresholds[:count]
        rates = _rates(entry, crossed[::-1], _SUFFIXES[service])
        if rates is None:
            return ()
        if not bands:
            bands.append(Band(above=0, inclusive=True, rates=rates))
        elif rates != bands[-1].rates:
            bands.append(Band(above=_tokens(crossed[-1]), inclusive=inclusive, rates=rates))
    return tuple(bands)


def _by_range(entry: Entry, service: ServiceTier) -> tuple[Band, ...] | None:
    """The bands of an entry that states ranges, none where one of them can't be read; None for other entries."""
    tiers = entry.get("tiered_pricing")
    if not isinstance(tiers, list):
        return None
    bands: list[Band] = []
    for tier in tiers if service is not ServiceTier.BATCH else ():
        if not isinstance(tier, dict) or not isinstance(tier.get("range"), list) or not tier["range"]:
            return ()
        low = decimal(tier["range"][0])
        rates = _rates({"output_cost_per_token": entry.get("output_cost_per_token"), **tier}, (), ("",))
        if low is None or rates is None:
            return ()
        bands.append(Band(above=int(low), rates=rates))
    bands.sort(key=lambda band: band.above)
    first = [band.model_copy(update={"above": 0, "inclusive": True}) for band in bands[:1]]
    return (*first, *bands[1:])


def _rates(entry: Entry, crossed: Sequence[str], suffixes: Sequence[str]) -> Rates | None:
    """The rates of one band. `crossed` are its thresholds, highest first; the first of `suffixes` there is counts."""

    def find(base: str) -> tuple[int, Decimal] | None:
        """How general the key is that gives `base` (0 is the most special), and its rate."""
        keys = [f"{base}_above_{threshold}_tokens{suffix}" for threshold in crossed for suffix in suffixes]
        keys += [f"{base}{suffix}" for suffix in suffixes]
        return next(((at, rate) for at, key in enumerate(keys) if (rate := decimal(entry.get(key))) is not None), None)

    fresh, output = find("input_cost_per_token"), find("output_cost_per_token")
    if fresh is None or output is None:
        return None
    read = find("cache_read_input_token_cost") or find("input_cost_per_token_cache_hit")
    short = find("cache_creation_input_token_cost")
    long = find("cache_creation_input_token_cost_above_1hr")
    image = find("input_cost_per_image_token")
    reasoning = find("output_cost_per_reasoning_token")
    if reasoning is None or reasoning[0] > output[0]:
        reasoning = output  # a reasoning rate of the plain tier does not hold where the output has a special one
    write = short[1] if short else fresh[1]
    return Rates(
        input=fresh[1],
        output=output[1],
        cache_read=read[1] if read else fresh[1],
        cache_write_5m=write,
        cache_write_1h=long[1] if long else _hour(fresh[1], write),
        image_input=image[1] if image else fresh[1],
        reasoning=reasoning[1],
        request=decimal(entry.get("input_cost_per_request")) or ZERO,
    )


def _hour(fresh: Decimal, write: Decimal) -> Decimal:
    """The rate of writes for an hour where none is stated: 2x input where those for 5 minutes are Anthropic's 1.25x."""
    return 2 * fresh if write == fresh * Decimal("1.25") else write


def _tokens(threshold: str) -> int:
    return int(threshold.removesuffix("k")) * (1000 if threshold.endswith("k") else 1)


def decimal(value: object) -> Decimal | None:
    """A price as tables write it (number or text), or None where it is none, negative included."""
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        return None
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        return None
    return number if number.is_finite() and number >= 0 else None


def _whole(value: object) -> int | None:
    number = decimal(value)
    return int(number) if number else None


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


class Entries:
    """A table's entries, read as they are asked for.

    The bundled file has some 5,000 entries in 3.5 MB. One entry is found in the text and parsed alone, which spares a
    process 50 ms and 25 MB. A text laid out in another way is parsed as a whole.
    """

    def __init__(self, text: bytes, name: str, version: str) -> None:
        self._text = text
        self._name = name
        self._version = version
        self._found: dict[str, Entry | None] = {}

    @classmethod
    def bundled(cls) -> Entries:
        """The table that the installed litellm brings. SetupError where there is none."""
        spec = importlib.util.find_spec("litellm")
        path = Path(spec.origin or "").parent / "model_prices_and_context_window_backup.json" if spec else None
        if path is None or not path.is_file():
            raise SetupError("the price table is missing", file=path, remedy="install litellm again")
        return cls(path.read_bytes(), "litellm", importlib.metadata.version("litellm"))

    @cached_property
    def origin(self) -> TableOrigin:
        return TableOrigin(name=self._name, version=self._version, sha256=hashlib.sha256(self._text).hexdigest())

    def get(self, name: str) -> Entry | None:
        """The entry under exactly `name`."""
        if name not in self._found:
            self._found[name] = self._read(name)
        return self._found[name]

    def _read(self, name: str) -> Entry | None:
        if not self._text.startswith(b'{\n    "'):
            entry = self.all.get(name)
            return entry if isinstance(entry, dict) else None
        mark = f"\n    {json.dumps(name)}: {{".encode()
        at = self._text.rfind(mark)
        if at < 0:
            return None
        start = at + len(mark) - 1
        end = self._text.index(b"\n    }", start) + len(b"\n    }")
        found: Entry = json.loads(self._text[start:end], parse_float=Decimal)
        return found

    @cached_property
    def all(self) -> dict[str, Any]:
        """The whole table, read at once."""
        table = json.loads(self._text, parse_float=Decimal)
        return table if isinstance(table, dict) else {}
