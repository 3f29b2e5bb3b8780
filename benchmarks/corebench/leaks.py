"""Finds texts of a prompt that hold an answer of the task set: what was measured with such a hint would be worthless.

Looked for are answers that nobody writes by chance: numbers of three significant digits or more, in any usual form
(rounded, as a percentage, with thousands separators or a decimal comma, in powers of ten, without its sign), and
names and texts of five letters or more, whatever stands between their words. "5", "yes" and "increase" are in many a
harmless sentence.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

from pydantic import JsonValue

from agentctl.agents.scaffold import Scaffold
from agentctl.base.errors import InputError
from agentctl.base.values import Frozen

from .dataset import Capsule, Dataset

DIGITS = 3  # significant ones that make a number distinctive
LETTERS = 5  # letters and digits that make a text distinctive, ...
WORD = 10  # ... and a single word in small letters, which may stand in any sentence

_TIMES = {"k": 3, "thousand": 3, "m": 6, "mn": 6, "million": 6, "bn": 9, "billion": 9}
_POWER = r"(?:(?:[eE]|\s*[x×*·]\s*10\s*(?:\^|\*\*)?\s*[({]?\s*)(?P<power>[-+−]?\d{1,3})\b)?"
_MULTIPLE = rf"(?:\s?(?P<times>{'|'.join(sorted(_TIMES, reverse=True))})\b)?"
_PLAIN = re.compile(rf"(?<![\w.])(?P<whole>\d*)(?:[.,](?P<part>\d+))?(?<=\d){_POWER}{_MULTIPLE}", re.IGNORECASE)
_GROUPED = re.compile(
    rf"(?<![\w.])(?P<whole>\d{{1,3}}(?P<mark>[ ,.'’_])\d{{3}}(?:(?P=mark)\d{{3}})*)(?:[.,](?P<part>\d+))?(?!\d)"
    rf"{_POWER}{_MULTIPLE}",
    re.IGNORECASE,
)
_NOT_WORD = re.compile(r"[\W_]+")


class Leak(Frozen):
    """An answer in a text. What the answer is, is not said: else it would be in whatever shows the leak."""

    text: str  # which one, as "hint pdf-tools"
    task: str  # id of the capsule
    question: str


class _Written(Frozen):
    """A number as it is written somewhere: without its sign, and half a unit of its last place."""

    value: Decimal
    half: Decimal

    def rounds(self, value: Decimal) -> bool:
        """Whether it is `value`, at most rounded; also as a percentage of a fraction, or the other way round."""
        forms = [value]
        if value <= 1:
            forms.append(value * 100)
        if value <= 100:
            forms.append(value / 100)
        return any(abs(form - self.value) <= self.half for form in forms)


def texts_of(scaffold: Scaffold) -> dict[str, str]:
    """What a scaffold tells in words of its own, by the name that an error shows."""
    parts = {"system text": scaffold.system, "role": scaffold.role, "task template": scaffold.task}
    texts = {f"{kind} {part.name}": part.text for kind, part in parts.items() if part is not None}
    return texts | {f"hint {hint.id}": hint.text for hint in scaffold.hints}


def leaks(texts: Mapping[str, str], dataset: Dataset) -> list[Leak]:
    """Each of `texts` (by a name for people) with each question of `dataset` that it answers, in their order."""
    found: list[Leak] = []
    for name, text in texts.items():
        numbers, words = list(_numbers(text)), f" {_words(text)} "
        for capsule in dataset.capsules:
            for question in capsule.questions:
                if any(_holds(numbers, words, answer) for answer in _answers(capsule, question)):
                    found.append(Leak(text=name, task=capsule.capsule_id, question=question))
    return found


def refuse_leaks(texts: Mapping[str, str], dataset: Dataset) -> None:
    """InputError where one of `texts` holds an answer of `dataset`: it names the text and the task, not the answer."""
    found = leaks(texts, dataset)
    if not found:
        return
    first = found[0]
    tasks = list(dict.fromkeys(leak.task for leak in found if leak.text == first.text))
    more = f" and of {len(tasks) - 1} more" if len(tasks) > 1 else ""
    raise InputError(
        f"holds an answer of {first.task}{more}: whoever reads it knows the answer without reproducing anything",
        file=first.text,
        remedy="say how to find answers, and take numbers and names out that are among them",
    )


def _answers(capsule: Capsule, question: str) -> Iterator[JsonValue]:
    """The answer of each run; of lists also each item."""
    for run in capsule.results:
        answer = run[question]
        yield answer
        if isinstance(answer, list):
            yield from answer


def _holds(numbers: Sequence[_Written], words: str, answer: JsonValue) -> bool:
    if isinstance(answer, list):
        answer = " ".join(str(item) for item in answer)
    if isinstance(answer, str):
        return _is_number(numbers, answer) or (_is_distinctive(answer) and f" {_words(answer)} " in words)
    if isinstance(answer, int | float) and not isinstance(answer, bool):
        value = abs(Decimal(str(answer)))
        return _significant(value) >= DIGITS and any(number.rounds(value) for number in numbers)
    return False


def _is_number(numbers: Sequence[_Written], answer: str) -> bool:
    """Whether a text that is a number, with or without a sign or a unit of one letter or sign, is among `numbers`."""
    bare = answer.strip().strip("+-−$€£%").strip()
    own = [number for number in _numbers(bare) if not re.search(r"[^\W\d_e]", bare)]
    return any(_significant(one.value) >= DIGITS and each.rounds(one.value) for one in own for each in numbers)


def _numbers(text: str) -> Iterator[_Written]:
    """The numbers in `text` that have digits enough, in each way in which they can be read."""
    plain = unicodedata.normalize("NFKC", text)
    for found in (*_PLAIN.finditer(plain), *_GROUPED.finditer(plain)):
        whole, part = re.sub(r"\D", "", found["whole"]), found["part"] or ""
        times = _TIMES.get((found["times"] or "").lower(), 0)
        power = int((found["power"] or "0").replace("−", "-")) + times - len(part)
        digits = (whole + part).lstrip("0")
        if not part:  # 12300 may be rounded to hundreds
            power += len(digits) - len(digits.rstrip("0"))
            digits = digits.rstrip("0")
        if len(digits) >= DIGITS:
            yield _Written(value=Decimal(digits).scaleb(power), half=Decimal(5).scaleb(power - 1))


def _significant(value: Decimal) -> int:
    """Digits between the first and the last that are not zero."""
    return len("".join(map(str, value.as_tuple().digits)).strip("0"))


def _words(text: str) -> str:
    return _NOT_WORD.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip()


def _is_distinctive(answer: str) -> bool:
    plain = answer.isalpha() and answer.islower()
    return sum(map(str.isalnum, answer)) >= (WORD if plain else LETTERS)
