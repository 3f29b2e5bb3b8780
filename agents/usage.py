"""Token counts of one call, in disjoint classes, from each provider's own form.

Providers disagree about what contains what: OpenAI's prompt tokens include cached ones, Anthropic's input tokens do
not, Gemini's candidates exclude thinking; libraries in between mix the forms. What no provider reported is never
silently 0: `normalise` gives None, or fills that side from an estimate and marks it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Literal, Protocol, TypeAlias

from agentctl.base.values import Frozen

Dialect: TypeAlias = Literal["openai_chat", "anthropic_messages", "gemini"]
_Raw: TypeAlias = Mapping[str, object]


class Usage(Frozen):
    """Tokens of one call, or of many. The prompt's classes are disjoint; reasoning is inside output."""

    input_tokens: int = 0  # uncached text
    cache_read_tokens: int = 0
    cache_write_5m_tokens: int = 0
    cache_write_1h_tokens: int = 0
    cache_write_tokens: int = 0  # written, for how long was not reported
    image_input_tokens: int = 0
    output_tokens: int = 0  # reasoning included
    reasoning_tokens: int = 0
    estimated_prompt_tokens: int = 0  # how many of the prompt's tokens no provider reported
    estimated_output_tokens: int = 0  # the same of the output's

    @property
    def prompt_tokens(self) -> int:
        """The size of the prompt: what long-context prices go by."""
        return self.input_tokens + self.cache_read_tokens + self.written_tokens + self.image_input_tokens

    @property
    def written_tokens(self) -> int:
        """Tokens written to a cache, for whatever time."""
        return self.cache_write_5m_tokens + self.cache_write_1h_tokens + self.cache_write_tokens

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.output_tokens

    @property
    def estimated(self) -> bool:
        """Whether any of it is our estimate instead of a provider's count."""
        return self.estimated_prompt_tokens > 0 or self.estimated_output_tokens > 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(**{name: getattr(self, name) + getattr(other, name) for name in Usage.model_fields})


class Estimate(Protocol):
    """Counts for what a provider did not report. Only the side that is missing is asked for."""

    def prompt(self) -> int: ...

    def output(self) -> int: ...


def normalise(dialect: Dialect, raw: object, estimate: Estimate | None = None) -> Usage | None:
    """The usage that a provider reported as `raw`: in `dialect` or, where that tells nothing, in another's form.

    A side that is missing, negative or no number comes from `estimate` and is marked; without `estimate` the answer is
    None. A prompt of 0 tokens counts as missing, and so does an output of 0 where `estimate` saw some. Never raises on
    `raw`, whatever it is.
    """
    fields: _Raw = raw if isinstance(raw, Mapping) else {}
    sides = _Sides()
    for reader in (_READERS[dialect], *_READERS.values()):
        sides = reader(fields)
        if sides.prompt or sides.output:
            break
    prompt, output = sides.prompt, sides.output
    if estimate is None:
        return _joined(prompt, output) if prompt and output else None
    if prompt is None:
        count = estimate.prompt()
        prompt = Usage(input_tokens=count, estimated_prompt_tokens=count)
    if output is None or output.output_tokens == 0:
        count = estimate.output()
        output = Usage(output_tokens=count, estimated_output_tokens=count)
    return _joined(prompt, output)


@dataclass(frozen=True)
class _Sides:
    """What a raw usage tells of each side; None where it tells nothing."""

    prompt: Usage | None = None
    output: Usage | None = None


def _joined(prompt: Usage, output: Usage) -> Usage:
    names = ("output_tokens", "reasoning_tokens", "estimated_output_tokens")
    return prompt.model_copy(update={name: getattr(output, name) for name in names})


_TOO_MANY = 10**12  # tokens; no provider's count


def as_count(value: object) -> int | None:
    """`value` as a number of tokens, or None if it is none. Counts come as strings and floats too."""
    if type(value) is int:  # nearly always, and not worth a Decimal
        return value if 0 <= value < _TOO_MANY else None
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = Decimal(value)
    except (InvalidOperation, ValueError):
        return None
    return int(number) if number.is_finite() and 0 <= number < _TOO_MANY and number == int(number) else None


def _first(raw: _Raw, *names: str) -> int | None:
    """The first of `names` that holds a count."""
    return next((count for name in names if (count := as_count(raw.get(name))) is not None), None)


def _largest(*counts: int | None) -> int:
    """Where fields disagree, the larger; 0 where none told."""
    return max((count for count in counts if count is not None), default=0)


def _inner(raw: _Raw, *names: str) -> _Raw:
    """The first of `names` that holds an object, else an empty one."""
    return next((value for name in names if isinstance(value := raw.get(name), Mapping)), {})


def _by_lifetime(written: int, raw: _Raw) -> tuple[int, int, int]:
    """Cache writes for 5 minutes, for 1 hour, for an unknown time. Where parts exceed the total, the parts count."""
    short = _first(raw, "ephemeral_5m_input_tokens") or 0
    long = _first(raw, "ephemeral_1h_input_tokens") or 0
    return short, long, max(0, written - short - long)


def _openai(raw: _Raw) -> _Sides:
    """Chat completions, its look-alikes, litellm's mixed form, and the names of the Responses API."""
    if "prompt_tokens" not in raw and ("cache_read_input_tokens" in raw or "cache_creation_input_tokens" in raw):
        return _anthropic(raw)
    prompt = _first(raw, "prompt_tokens", "input_tokens")
    output = _first(raw, "completion_tokens", "output_tokens")
    total = _first(raw, "total_tokens")
    if total is not None:
        if prompt is None and output is not None:
            prompt = max(0, total - output)
        elif output is None and prompt is not None and total >= prompt:
            output = total - prompt
    return _Sides(
        _openai_prompt(raw, prompt, (prompt or 0) + (output or 0) == total) if prompt else None,
        None if output is None else _openai_output(raw, prompt or 0, output, total),
    )


def _openai_prompt(raw: _Raw, prompt: int, total_agrees: bool) -> Usage:
    details = _inner(raw, "prompt_tokens_details", "input_tokens_details")
    apart = (_first(raw, "cache_read_input_tokens"), _first(raw, "cache_creation_input_tokens"))
    read = _largest(apart[0], _first(details, "cached_tokens"), _first(raw, "prompt_cache_hit_tokens"))
    written = _largest(apart[1], _first(details, "cache_creation_tokens", "cache_write_tokens"))
    short, long, unknown = _by_lifetime(
        written, _inner(details, "cache_creation_token_details") or _inner(raw, "cache_creation")
    )
    if read + short + long + unknown > prompt and apart != (None, None) and not total_agrees:
        prompt += read + short + long + unknown  # Anthropic's counts behind OpenAI's name: they lie outside the prompt
    room = prompt
    parts = []
    for part in (
        long,
        short,
        unknown,
        read,
        _first(details, "image_tokens") or 0,
    ):  # dearest first: the prompt's total stands
        parts.append(min(part, room))
        room -= parts[-1]
    return Usage(
        input_tokens=room,
        cache_write_1h_tokens=parts[0],
        cache_write_5m_tokens=parts[1],
        cache_write_tokens=parts[2],
        cache_read_tokens=parts[3],
        image_input_tokens=parts[4],
    )


def _openai_output(raw: _Raw, prompt: int, output: int, total: int | None) -> Usage:
    details = _inner(raw, "completion_tokens_details", "output_tokens_details")
    reasoning = _largest(_first(details, "reasoning_tokens"), _first(raw, "reasoning_tokens"))
    if reasoning > output or (reasoning > 0 and total == prompt + output + reasoning):
        output += reasoning  # some look-alikes count only what is visible as completion; their total tells
    return Usage(output_tokens=output, reasoning_tokens=reasoning)


def _anthropic(raw: _Raw) -> _Sides:
    fresh = _first(raw, "input_tokens")
    read = _first(raw, "cache_read_input_tokens") or 0
    written = _first(raw, "cache_creation_input_tokens") or 0
    short, long, unknown = _by_lifetime(written, _inner(raw, "cache_creation"))
    prompt = Usage(
        input_tokens=fresh or 0,
        cache_read_tokens=read,
        cache_write_5m_tokens=short,
        cache_write_1h_tokens=long,
        cache_write_tokens=unknown,
    )
    output = _first(raw, "output_tokens")
    thinking = _largest(_first(_inner(raw, "output_tokens_details"), "thinking_tokens", "reasoning_tokens"))
    return _Sides(
        prompt if fresh is not None and prompt.prompt_tokens else None,
        None if output is None else Usage(output_tokens=output, reasoning_tokens=min(thinking, output)),
    )


def _gemini(raw: _Raw) -> _Sides:
    prompt = _first(raw, "promptTokenCount")
    by_tool = _first(raw, "toolUsePromptTokenCount") or 0
    thoughts = _first(raw, "thoughtsTokenCount") or 0
    visible = _first(raw, "candidatesTokenCount")
    total = _first(raw, "totalTokenCount")
    if visible is None and prompt is not None and total is not None:
        visible = max(0, total - prompt - by_tool - thoughts)
    told = None
    if prompt:
        read = min(_first(raw, "cachedContentTokenCount") or 0, prompt)
        image = _of_images(raw.get("promptTokensDetails")) - _of_images(raw.get("cacheTokensDetails"))
        image = min(max(0, image), prompt - read)
        told = Usage(input_tokens=prompt - read - image + by_tool, cache_read_tokens=read, image_input_tokens=image)
    output = None if visible is None else Usage(output_tokens=visible + thoughts, reasoning_tokens=thoughts)
    return _Sides(told, output)


def _of_images(details: object) -> int:
    """Image tokens of Gemini's list of counts by modality."""
    entries = details if isinstance(details, list) else []
    return sum(
        _first(entry, "tokenCount") or 0
        for entry in entries
        if isinstance(entry, Mapping) and entry.get("modality") == "IMAGE"
    )


_READERS: dict[Dialect, Callable[[_Raw], _Sides]] = {
    "openai_chat": _openai,
    "anthropic_messages": _anthropic,
    "gemini": _gemini,
}
