"""A history that is condensed when it takes much of the model's window.

The prompt and the latest steps stay as they are; the steps before are summed up by the model itself. Its request is the
conversation as it was last sent, with one instruction behind it, so that a provider reads it from its cache. A new
summary takes the place of the one before. Images live on in what the summary says of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal

from agentctl.base.messages import Message, Role, Text
from agentctl.prompts.compose import fill, read_part

from ..asking import Asker
from ..context import ContextItem, told_now
from ..events import Condensed, Event, HowCondensed
from ..models.gateway import ModelFailed
from ..models.protocol import EncodedMessage, EncodedTool, Fault
from ..models.tokens import count_tokens
from ..protocols import Protocol as CallProtocol
from ..purse import CapReached
from ..state import State
from ..transcript import Transcript
from .conversation import Conversation, cut_to
from .protocol import NoRoom
from .shorter import Telling, View, shorter, summed_up
from .sizes import Room, Sizes
from .worth import Change, saves

LATEST = 0.25  # of the room where a history is due: the latest steps that stay as they are
SUMMARY_SHARE = 8  # a summary has at most this part of the window's tokens in characters, as one result has
SUMMARY_CHARACTERS = 12_000  # and at most so many: some 3,000 tokens
GAIN = 0.9  # what takes the place of steps has at most this part of their tokens
FRUITLESS = 2  # summaries in a row that gained nothing, after which no more are asked for

_ASK = "history/condense.md"
_PER_TOKEN, _PER_WORD = 4, 6  # characters of English, about
_OWN_FAULTS = (Fault.CONTEXT, Fault.REFUSED, Fault.EXHAUSTED, Fault.OVER)  # of this request, not of the way there


class CondensedHistory:
    """Everything, until it is condensed. `most_steps` is the number at which the attempt ends.

    A call and its results stay together, and so do thinking and its call. Where no summary can be had, the results of
    the oldest steps are cut, then those steps are left out: both need no model. The same steps, with the same bills,
    give the same messages.
    """

    def __init__(
        self,
        protocol: CallProtocol,
        transcript: Transcript,
        context: Sequence[ContextItem],
        asker: Asker,
        emit: Callable[[Event], None],
        tools: Sequence[EncodedTool],
        most_steps: int,
        kept: Callable[[], Decimal | None] = lambda: None,  # dollars that a summary must leave
    ) -> None:
        self._conversation = Conversation(protocol, transcript)
        self._context = context
        self._asker = asker
        self._emit = emit
        self._tools = tools
        self._most_steps = most_steps
        self._kept = kept
        self._route = asker.route("main")
        self._room = Room.of(self._route)
        self._sizes = Sizes(tools)
        self._telling = Telling(self._conversation)
        self._view = View()
        self._sent: list[EncodedMessage] = []
        self._sent_for = 0  # the step that the reply to it makes
        self.longest_summary = min(SUMMARY_CHARACTERS, self._route.context_window // SUMMARY_SHARE)
        # A token of any text has two characters or more, nearly always. What is thought first has no known length.
        self._output_limit = None if self._route.hidden_output else max(1_000, self.longest_summary // 2)
        self._instruction: EncodedMessage | None = None
        self._fruitless = 0

    def keep(self, state: State) -> None:
        self._conversation.keep(state)
        newest = state.steps[-1] if state.steps else None
        if newest and newest.usage and newest.index == self._sent_for:
            self._sizes.learn(self._sent, newest.usage.prompt_tokens)
            self._sent_for = 0

    def render(self, state: State) -> Sequence[EncodedMessage]:
        self.keep(state)
        self._sent, self._sent_for = self._messages(), len(state.steps) + 1
        now = told_now(self._context)
        return [*self._sent, *self._conversation.transcript.add(now, aside=True)] if now else self._sent

    def settle(self, state: State) -> None:
        self.keep(state)
        if self._sizes.fit(self._messages(), self._room.due):
            return
        forced = not self._sizes.fit(self._messages(), self._room.most)
        if forced or self._pays(state):
            self._sum_up()
        if not self._sizes.fit(self._messages(), self._room.most):
            self._shorten(self._room.due // 2)
        if not self._sizes.fit(self._messages(), self._room.window):
            raise NoRoom(
                f"the task and the latest step have about {self._size():,} tokens, "
                f"too many for a window of {self._route.context_window:,}"
            )

    def shrink(self, state: State) -> bool:
        """Without a summary: a request for one begins like what was refused, and would be refused as well."""
        self.keep(state)
        before = self._size()
        self._room.refused(before)
        self._shorten(before // 2)
        return self._size() <= GAIN * before

    def _messages(self) -> list[EncodedMessage]:
        return self._telling.messages(self._view)

    def _size(self) -> int:
        return self._sizes.of_prompt(self._messages())

    def _latest(self) -> int:
        """The first of the steps that stay as they are: the newest, and those before it that fit their share."""
        room = LATEST * self._room.due
        first = self._conversation.last
        taken = self._sizes.of(self._step(first))
        while first > self._view.first and taken + (more := self._sizes.of(self._step(first - 1))) <= room:
            first, taken = first - 1, taken + more
        return first

    def _step(self, index: int) -> Sequence[EncodedMessage]:
        return self._conversation.step(index, self._view.cut.get(index))

    def _replaced(self, latest: int) -> int:
        """Tokens of what a summary would take the place of: the one before, and the steps up to `latest`."""
        told = self._telling.instead(self._view)
        return self._sizes.of(told) + sum(self._sizes.of(self._step(n)) for n in range(self._view.first, latest))

    def _pays(self, state: State) -> bool:
        """Whether a summary costs less than it saves, by the prices and the last bill.

        Nothing tells how long an attempt goes on. It is taken to last as long again as it has, within its limit.
        """
        usage = state.steps[-1].usage
        before, summary = self._size(), self.longest_summary // _PER_TOKEN
        change = Change(
            before=before,
            after=before - self._replaced(self._latest()) + summary,
            prefix=self._sizes.of(self._conversation.prefix),
            output=summary + (usage.reasoning_tokens if usage else 0),
        )
        to_come = min(len(state.steps), self._most_steps - len(state.steps))
        return saves(change, self._route, steps=to_come, cached=usage is not None and usage.cache_read_tokens > 0)

    def _sum_up(self) -> None:
        """Have the model sum up all steps but the latest, where that can be asked for and makes it shorter."""
        latest = self._latest()
        replaced = self._replaced(latest)
        if self._fruitless >= FRUITLESS or GAIN * replaced <= self.longest_summary // _PER_TOKEN:
            return
        before = self._size()
        request = self._request()
        if request is None:
            return
        text = cut_to(self.longest_summary, self._asked(request))
        if not text or self._sizes.as_billed(count_tokens(text)) > GAIN * replaced:
            self._fruitless += 1
            return
        self._fruitless = 0
        self._view = summed_up(self._view, text, latest)
        self._note("summed up", 1, latest - 1, before)

    def _request(self) -> list[EncodedMessage] | None:
        """What asks for a summary: all that is told, shortened where it has to be, and an instruction."""
        if self._instruction is None:
            text = fill(read_part(_ASK), {"words": str(self.longest_summary // _PER_WORD)}, name=_ASK)
            self._instruction = self._conversation.added(Message(role=Role.USER, parts=(Text(text=text),)))
        messages = self._messages()
        reply = self._route.output_limit(self._output_limit)  # a summary is shorter than what a prompt leaves room for
        room = self._room.most + self._route.output_limit() - reply - self._sizes.of([self._instruction])
        if not self._sizes.fit(messages, room):
            messages = self._telling.messages(shorter(self._view, room, self._telling, self._sizes))
        return [*messages, self._instruction] if self._sizes.fit(messages, room) else None

    def _asked(self, request: Sequence[EncodedMessage]) -> str:
        """The summary that the model gives; empty where it gives none."""
        try:
            reply = self._asker.ask("summary", request, self._tools, self._output_limit, keep=self._kept())
        except CapReached:  # without a summary the next request is shorter still
            return ""
        except ModelFailed as failed:
            if failed.fault not in _OWN_FAULTS:
                raise
            return ""
        return Message(role=Role.ASSISTANT, parts=reply.parts).text().strip()

    def _shorten(self, target: int) -> None:
        """Cut results and leave out steps until at most `target` tokens are left, or as few as can be."""
        before, old = self._size(), self._view
        self._view = shorter(old, target, self._telling, self._sizes)
        changed = [index for index, longest in self._view.cut.items() if longest != old.cut.get(index)]
        if changed:
            self._note("results cut", min(changed), max(changed), before)
        if self._view.first > old.first:
            self._note("left out", old.first, self._view.first - 1, before)

    def _note(self, how: HowCondensed, first: int, last: int, before: int) -> None:
        self._emit(Condensed(how=how, first=first, last=last, before=before, after=self._size()))
