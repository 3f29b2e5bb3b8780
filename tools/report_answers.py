"""What is odd about one key or one answer of a report, told without knowing what the right answer is."""

from __future__ import annotations

import difflib
import json
import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any

from agentctl.base.text import head

_SHOWN = 160  # characters of an answer that a message quotes

_NO_ANSWER = frozenset(
    (
        *("", "?", "-", "--", "---", "–", "—", "...", "…", "n/a", "n.a.", "n.a", "na", "nan", "none", "null", "nil"),
        *(
            "undefined",
            "unknown",
            "unclear",
            "missing",
            "empty",
            "error",
            "failed",
            "tbd",
            "tba",
            "todo",
            "not available",
        ),
        *("not found", "not applicable", "not known", "not reported", "not specified", "not provided", "unavailable"),
        *("no answer", "no data", "cannot determine", "could not determine", "inf", "-inf", "infinity", "-infinity"),
    )
)
_GIVING_UP = re.compile(
    r"(?:not (?:found|available|determined|computed|reported|possible)|unable to|(?:could|can)(?: ?not|n?['’]t)"
    r"|failed to|no (?:data|result|output|value)s? (?:was|were|found|available)|unknown\b|placeholder)",
    re.IGNORECASE,
)
_NEARLY_A_NUMBER = re.compile(r"[^\w\s]{0,2}\s*[-+−–]?\s*[.,]?\d")
_SENTENCE = re.compile(r"(?:the|it|this)\s.*\b(?:is|are|was|were)\b", re.IGNORECASE)
_ASKED_DECIMALS = re.compile(
    r"(\d+|one|two|three|four|five|six)\s+(?:decimals?\b|decimal (?:places?|digits?|points?))", re.I
)
_WORD_NUMBERS = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6}
_SAME_CHARACTER = str.maketrans(
    {**dict.fromkeys("‐‑‒–—―−﹣－", "-"), **dict.fromkeys("‘’‚′`´", "'"), **dict.fromkeys("“”„″", '"'), "…": "..."}
)


def as_scored(value: Any) -> Any:
    """An answer as CORE-Bench's scorers read it.

    A text loses its percent signs and becomes a number if Python's `float` takes it; all else stays as it is.
    """
    if not isinstance(value, str):
        return value
    bare = value.replace("%", "")
    try:
        return float(bare)
    except ValueError:
        return bare


def near_key(key: str, questions: Sequence[str]) -> str | None:
    """The question that `key` was probably meant to be, or None. Other digits (row 1, row 2) make another one."""
    by_form: dict[str, str] = {}
    for question in questions:
        by_form.setdefault(_form(question), question)
    form = _form(key)
    if form in by_form:
        return by_form[form]
    alike = [each for each in by_form if re.findall(r"\d+", each) == re.findall(r"\d+", form)]
    close = difflib.get_close_matches(form, alike, n=1, cutoff=0.85)
    return by_form[close[0]] if close else None


def _form(key: str) -> str:
    """`key` without what people and models get wrong: case, blanks, look-alike signs, final punctuation."""
    text = unicodedata.normalize("NFKC", key[:1000].translate(_SAME_CHARACTER)).translate(_SAME_CHARACTER).casefold()
    return " ".join(text.replace("_", " ").split()).strip(" .:;?!\"'")


def difference(key: str, question: str) -> str:
    """By what a key differs from the question that it was meant to be, as the end of a sentence; empty if by more."""
    if key.strip() == question.strip():
        return " by blanks at its ends"
    if key.casefold() == question.casefold():
        return " by upper and lower case"
    if key.translate(_SAME_CHARACTER) == question.translate(_SAME_CHARACTER):
        return " by a typographic sign (hyphen, quote)"
    return ""


def warnings_on(question: str, value: Any) -> Iterator[str]:
    """What the agent should look at again in the answer `value`, in sentences."""
    if isinstance(value, list):
        yield "A list is only right where the question asks for a list."
    problem = _text_problem(value) if isinstance(value, str) else _precision(question, value)
    if problem:
        yield problem


def _text_problem(value: str) -> str | None:
    """What is odd about a text as an answer, as a sentence; None if nothing is."""
    bare = value.strip()
    start = bare[:500]  # patterns look no further: a text of a megabyte must not cost seconds
    quoted = json.dumps(head(value, _SHOWN), ensure_ascii=False)
    if bare.casefold().rstrip(".!") in _NO_ANSWER or bare.casefold() in _NO_ANSWER:
        return f"{quoted} stands for no answer, and can cost the answers after it: give your best guess."
    number = as_scored(value)
    if "%" in value and isinstance(number, float):
        return (
            f"{quoted} is read as {number!r}: check whether the question wants {number!r} (per cent)"
            f" or {number / 100!r} (a fraction), and write it as a bare number."
        )
    if isinstance(number, float):
        return None
    if _GIVING_UP.match(start):
        return f"{quoted} tells why there is no answer: give your best guess."
    if _NEARLY_A_NUMBER.match(start):
        return (
            f"{quoted} starts like a number but can't be read as one: if a number is asked, write it bare,"
            " without unit, thousands separator or words."
        )
    if value != bare:
        return f"{quoted} has blanks at its ends, which count."
    if len(start) == 500 or "\n" in start or len(start.split()) > 12 or _SENTENCE.match(start):
        return f"{quoted} reads like prose: give the bare answer."
    return None


def _precision(key: str, value: Any) -> str | None:
    """A reminder of the digits that the question asks for, or of rounding; None where there is nothing to say."""
    if isinstance(value, bool) or not isinstance(value, float):
        return None
    text = repr(value)
    decimals = len(text.partition(".")[2]) if "e" not in text and not value.is_integer() else 0
    asked = _ASKED_DECIMALS.search(key[:1000])
    if asked:
        word = asked[1].casefold()
        digits = _WORD_NUMBERS[word] if word in _WORD_NUMBERS else int(word[:4])
        return None if decimals <= digits else f"{text} has {decimals} decimals; the question asks for {digits}."
    if 0 < decimals <= 2:
        return f"{text} looks rounded: keep it if just that was printed, else give every digit that was."
    return None
