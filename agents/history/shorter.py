"""What is told of the steps, and how it is made shorter without a model's help.

Steps are told whole or left out whole, so a call and its results are never parted, nor thinking and its call.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from agentctl.base.messages import Message, Role, Text
from agentctl.prompts.compose import fill, read_part

from ..models.protocol import EncodedMessage
from .conversation import Conversation
from .sizes import Sizes

STUB = 200  # characters that are left of an old result: how it began and how it ended
NOTICE = 60  # tokens of the words that say which steps are left out

_SUMMED_UP, _LEFT_OUT = "history/summed-up.md", "history/left-out.md"


@dataclass(frozen=True)
class View:
    """What is told: a summary of the first steps, nothing of some, then each step, with its results whole or cut."""

    summary: str = ""
    summed_up: int = 0  # the last step that the summary tells of
    first: int = 1  # the first step that is told by itself
    cut: Mapping[int, int] = field(default_factory=dict)  # by step: characters left of each of its results


class Telling:
    """Views as messages, each made once."""

    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation
        self._instead: dict[tuple[str, int, int], list[EncodedMessage]] = {}

    def messages(self, view: View) -> list[EncodedMessage]:
        """The prompt's messages and all that `view` tells."""
        told = [*self.conversation.prefix, *self.instead(view)]
        for index in range(view.first, self.conversation.last + 1):
            told += self.conversation.step(index, view.cut.get(index))
        return told

    def instead(self, view: View) -> list[EncodedMessage]:
        """What stands in the place of the steps before `view.first`."""
        key = (view.summary, view.summed_up, view.first)
        if view.first > 1 and key not in self._instead:
            texts = []
            if view.summed_up:
                texts.append(_filled(_SUMMED_UP, first=1, last=view.summed_up, summary=view.summary))
            if view.first - 1 > view.summed_up:
                texts.append(_filled(_LEFT_OUT, first=view.summed_up + 1, last=view.first - 1))
            message = Message(role=Role.USER, parts=(Text(text="\n\n".join(texts)),))
            self._instead[key] = [self.conversation.added(message)]
        return self._instead.get(key, [])


def shorter(view: View, target: int, telling: Telling, sizes: Sizes) -> View:
    """`view`, shortened until it has at most `target` tokens, or as far as that goes.

    First the newest step, where it takes more than half of that; then the results of the oldest steps; then those
    steps. The prompt and the newest step are always told.
    """
    conversation = telling.conversation
    newest = conversation.last
    if newest < view.first or sizes.of_prompt(telling.messages(view)) <= target:
        return view
    view = _newest_cut(view, target // 2, conversation, sizes)
    over = sizes.of_prompt(telling.messages(view)) - target
    for index in range(view.first, newest):
        if over <= 0:
            return view
        if view.cut.get(index) != STUB:
            whole, stub = conversation.step(index, view.cut.get(index)), conversation.step(index, STUB)
            over -= sizes.of(whole) - sizes.of(stub)
            view = replace(view, cut={**view.cut, index: STUB})
    first = view.first
    over += NOTICE if over > 0 else 0
    while over > 0 and first < newest:
        over -= sizes.of(conversation.step(first, STUB))
        first += 1
    return view if first == view.first else replace(view, first=first, cut=_from(first, view.cut))


def _newest_cut(view: View, share: int, conversation: Conversation, sizes: Sizes) -> View:
    newest = conversation.last
    if sizes.of(conversation.step(newest, view.cut.get(newest))) <= share or not conversation.results(newest):
        return view
    characters = conversation.characters(newest) * share // sizes.of(conversation.step(newest))
    return replace(view, cut={**view.cut, newest: max(STUB, characters // conversation.results(newest))})


def summed_up(view: View, summary: str, first: int) -> View:
    """`view` with `summary` in the place of all before the step `first`."""
    return View(summary, first - 1, first, _from(first, view.cut))


def _from(first: int, cut: Mapping[int, int]) -> dict[int, int]:
    return {index: longest for index, longest in cut.items() if index >= first}


def _filled(part: str, **variables: object) -> str:
    return fill(read_part(part), {name: str(value) for name, value in variables.items()}, name=part)
