"""AutoGPT's history: each request is built anew, and one message of it tells what was done so far.

In order: the prompt; what is kept open; the progress; the clock; a fixed question for exactly one command. The three in
the middle are of the system role. A reply without a command is sent back behind the same prompt, with what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from agentctl.base.messages import ImageRef, Message, Part, Role, Text
from agentctl.base.text import cut
from agentctl.prompts.compose import fill, read_part

from ..asking import NO_ANSWER, Asker
from ..context import CLOCK, ContextItem
from ..events import Event, Summarised
from ..models.protocol import EncodedMessage
from ..protocols import Protocol as CallProtocol
from ..scaffold import ATTEMPTS
from ..state import State, Step
from ..transcript import Transcript
from .full import FullHistory
from .progress import fitting, one_line, tokens, told_short, told_whole

WHOLE = 4  # latest steps that are told whole
SHARE = 0.75  # of the model's window that the progress may take
SUMMARY_TOKENS = 500

_ASK, _PROGRESS, _SUMMARY = (f"history/autogpt/{name}.md" for name in ("ask", "progress", "summary"))


class AutogptHistory:
    """The latest steps whole, older ones as one line of the fast model's, at most `summary_tokens` long.

    `emit` puts into the record which step a summary is of. The conversation itself is in the record too: replies and
    results as they come, as the protocol tells them, though no request holds them so.
    """

    def __init__(
        self,
        protocol: CallProtocol,
        transcript: Transcript,
        context: Sequence[ContextItem],
        asker: Asker,
        emit: Callable[[Event], None],
        *,
        summary_tokens: int = SUMMARY_TOKENS,
    ) -> None:
        self._protocol = protocol
        self._transcript = transcript
        self._context = context
        self._asker = asker
        self._emit = emit
        self._summary_tokens = summary_tokens
        self._room = int(SHARE * asker.context_window("main"))  # tokens of the progress
        self._whole = FullHistory(protocol, transcript)
        self._told: dict[str, tuple[Message, EncodedMessage]] = {}
        self._base: list[EncodedMessage] = []  # the last request, without replies that were sent back

    def keep(self, state: State) -> None:
        self._whole.keep(state)

    def render(self, state: State) -> Sequence[EncodedMessage]:
        said = self._whole.render(state)
        back = _sent_back(state)
        if not back or not self._base:
            self._base = [*said[: len(state.prefix)], *self._middle(state), self._question()]
        count = sum(len(self._protocol.render(step)) for step in back)
        return [*self._base, *said[len(said) - count :]]

    def settle(self, state: State) -> None:
        """Have each step that has none summed up.

        A model that can't be reached ends the attempt, as anywhere else: with lines of another kind it would be another
        arm. A step that it will not sum up gets a line of our own.
        """
        for step in _done(state):
            if not step.summary:
                summary, problem = self._summed_up(step)
                state.steps[step.index - 1] = replace(step, summary=summary)
                self._emit(Summarised(step=step.index, text=summary, problem=problem))

    def shrink(self, state: State) -> bool:
        """Halve the progress. False where it holds no more than the latest step."""
        shown = self._progress(_done(state))
        if len(shown) < 2:
            return False
        self._room = sum(map(tokens, shown)) // 2
        self._base = []
        return True

    def _middle(self, state: State) -> list[EncodedMessage]:
        """What is told between the prompt and the question."""
        steps = _done(state)
        shown = self._progress(steps)
        sections = {item.name: item.contribute() for item in self._context}
        clock = sections.pop(CLOCK, "")
        if shown:
            sections["progress"] = fill(read_part(_PROGRESS), {"steps": "\n".join(shown)}, name=_PROGRESS)
        messages = [self._tell(name, Role.SYSTEM, Text(text=text)) for name, text in sections.items() if text]
        if images := _images(steps[-min(WHOLE, len(shown)) :] if shown else ()):
            messages.append(self._tell("images", Role.USER, *images))
        return [*messages, self._tell(CLOCK, Role.SYSTEM, Text(text=clock))] if clock else messages

    def _question(self) -> EncodedMessage:
        how = "answer with the JSON object of the response format" if self._protocol.format_text() else "call it"
        return self._tell("question", Role.USER, Text(text=fill(read_part(_ASK), {"how": how}, name=_ASK)))

    def _tell(self, what: str, role: Role, *parts: Part) -> EncodedMessage:
        """A message beside the conversation. One that still holds is not made again."""
        message = Message(role=role, parts=parts)
        known = self._told.get(what)
        if known is None or known[0] != message:
            [encoded] = self._transcript.add([message], aside=True)
            known = self._told[what] = (message, encoded)
        return known[1]

    def _progress(self, steps: Sequence[Step]) -> Sequence[str]:
        """The texts of the latest steps that there is room for, oldest first."""
        short = len(steps) - WHOLE
        texts = [
            f"* Step {n}: {step.summary}" if n <= short and step.summary else f"* Step {n}:\n{self._in_words(step)}"
            for n, step in enumerate(steps, start=1)
        ]
        return fitting(texts, self._room)

    def _in_words(self, step: Step) -> str:
        return told_whole(step, self._protocol.thought(step.reply))

    def _summed_up(self, step: Step) -> tuple[str, str]:
        """One line for `step`, and why it is not the model's where it is not."""
        told = cut(self._in_words(step), self._asker.context_window("fast"))  # about a third of it in tokens
        question = fill(read_part(_SUMMARY), {"step": told}, name=_SUMMARY)
        said = one_line(self._asker.ask_helper("fast", [Text(text=question)], self._summary_tokens))
        return (told_short(step), said) if said.startswith(NO_ANSWER) else (said, "")


def _done(state: State) -> list[Step]:
    """The steps that ran a command, or tried to."""
    return [step for step in state.steps if step.complete and step.calls]


def _sent_back(state: State) -> list[Step]:
    """The latest steps, none of which has a command, that the next request holds: fewer than ATTEMPTS.

    After so many the prompt is built anew, and holds none of them.
    """
    count = next((n for n, step in enumerate(reversed(state.steps)) if step.calls), len(state.steps))
    return state.steps[len(state.steps) - count % ATTEMPTS :]


def _images(steps: Sequence[Step]) -> list[Part]:
    """The images of `steps`, as a user may show them: a provider takes none from the system."""
    return [part for step in steps for result in step.results for part in result.parts if isinstance(part, ImageRef)]
