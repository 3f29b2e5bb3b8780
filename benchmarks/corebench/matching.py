"""Does a text hold the value of an answer? The rules, which a person must be able to repeat by hand:

- A number is held where a number of the text has the same value, whatever its notation (12.50, 1.25e1, 1,250 for 1250).
- An answer with at least three digits is also held by a longer number that rounds to it, and by one a hundred times as
  large or small (a share and its per cent).
- A number with two digits is held only as it is, and only by a text of up to 64 KiB: larger ones hold it by chance.
- A text is held where its words stand in a row, case and blanks aside, not as a part of longer words.
- A list is held where all its items are.
- Numbers with one digit, texts with fewer than four letters, true, false and null tell nothing: they stand everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation

from agentctl.tools.report_answers import as_scored

Holds = Callable[[str], bool]

_SMALL = 64 << 10  # characters
_LONGEST = 400  # characters of one printed number that are looked at
_CORE = re.compile(r"(?>\d+(?:\.\d*)?|\.\d+)(?>[eE][-+]?\d{1,3})?")
_SCALES = (Decimal(1), Decimal(100), Decimal("0.01"))


def finder(answer: object) -> Holds | None:
    """A function that says whether a text holds `answer`; None where that would tell nothing."""
    value = as_scored(answer)
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return _number_finder(value)
    if isinstance(value, str):
        return _text_finder(value)
    if isinstance(value, list):
        finders = [found for item in value[:100] if (found := finder(item)) is not None]
        return (lambda text: all(found(text) for found in finders)) if finders else None
    return None


def _text_finder(answer: str) -> Holds | None:
    words = answer.split()[:60]
    if sum(character.isalnum() for character in answer) < 4:
        return None
    pattern = re.compile(r"(?<!\w)" + r"\s+".join(re.escape(word) for word in words) + r"(?!\w)", re.IGNORECASE)
    longest = max(words, key=len).lower()  # looked for first: ten times as fast as the pattern, and mostly absent
    return lambda text: longest in text.lower() and pattern.search(text) is not None


def _number_finder(answer: int | float) -> Holds | None:
    try:
        value = Decimal(repr(answer)).normalize()
    except (InvalidOperation, ValueError):  # ValueError: an integer with more digits than Python turns to text
        return None
    if not value.is_finite() or value.adjusted() > 40 or value.adjusted() < -40:
        return None
    places = max(0, -int(value.as_tuple().exponent))  # decimals that the answer was given with
    plain = format(abs(value), "f")
    digits = plain.replace(".", "").lstrip("0")
    if len(digits) < 2:
        return None
    near = _near_pattern(digits)
    thousands = re.escape(format(abs(value), ",f"))
    grouped = re.compile(rf"(?<![\w.,]){thousands}(?![\d.]?\d)") if abs(value) >= 1000 else None
    loose = len(digits) >= 3

    def holds(text: str) -> bool:
        if not loose and len(text) > _SMALL:
            return False
        for match in near.finditer(text):
            printed = printed_at(text, match.start())
            if printed is not None and _agree(printed, value, places, loose):
                return True
        return grouped is not None and grouped.search(text) is not None

    return holds


def _near_pattern(digits: str) -> re.Pattern[str]:
    """Finds where a number may stand that has these digits or rounds to them: quick, and finds too much."""
    if len(digits.rstrip("0")) >= 3:
        digits = digits.rstrip("0")  # 1250 may be printed as 1.25e3
    length = min(len(digits), 6)
    below = str(int(digits) - 1).rjust(len(digits), "0")[:length].lstrip("0")
    starts = {digits[:length], below} - {""}
    return re.compile("|".join(r"\.?".join(start) for start in sorted(starts)))


def printed_at(text: str, at: int) -> Decimal | None:
    """The number of `text` that covers position `at`, with its sign; None where what stands there is none.

    Parts of names (v12, x5), of versions (1.2.3), dates (2024-05-13) and times (10:13) are none.
    """
    start = at
    while start > 0 and at - start < _LONGEST and (text[start - 1].isascii() and text[start - 1] in "0123456789."):
        start -= 1
    core = _CORE.match(text, start)
    if core is None or len(core[0]) > _LONGEST or core.end() <= at:
        return None
    before, after = text[max(0, start - 2) : start], text[core.end() : core.end() + 2]
    if _word(before[-1:]) or _word(after[:1]) or (after[:1] == "." and after[1:].isdigit()):
        return None
    joined = before[-1:] in ("-", ":", "/") and before[:1].isdigit()
    if core[0].isdigit() and (joined or (after[:1] in ("-", ":", "/") and after[1:].isdigit())):
        return None
    negative = before[-1:] in ("-", "−") and not (len(before) == 2 and (_word(before[:1]) or before[:1] == ")"))
    try:
        value = Decimal(core[0])
    except InvalidOperation:
        return None
    return -value if negative else value


def _word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _agree(printed: Decimal, value: Decimal, places: int, loose: bool) -> bool:
    """Whether a printed number is the answer, by the rules above."""
    if printed == value or float(printed) == float(value):
        return True
    if not loose:
        return False
    unit = Decimal(1).scaleb(-places)
    for scale in _SCALES:
        scaled = printed * scale
        finer = -int(scaled.as_tuple().exponent) > places
        if scaled == value or (finer and abs(scaled - value) <= unit / 2):
            return True
    return False
