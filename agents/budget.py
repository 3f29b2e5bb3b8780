"""An attempt's budget, as its agent is told of it: what is left at set marks, and what is kept for the report.

All of it is off unless the scaffold turns it on; the cap holds either way, in the purse. And the way in which one
original held its budget, as a fault to be switched on: tested after each command, so that the last one may pass it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from agentctl.base.deliverable import Deliverable
from agentctl.base.errors import InputError
from agentctl.base.messages import ImageRef, Part
from agentctl.base.values import plain_decimal

from .asking import Asker, Resumed
from .ends import End, Ending
from .models.bound import IMAGE_TOKENS
from .models.gateway import Gateway
from .pricing import ZERO
from .scaffold import Scaffold
from .spec import Limits
from .state import State, Step

MARKS = ((0.5, "half"), (0.75, "three quarters"), (0.9, "nine tenths"))  # of what may be used
CLOSING_CALLS = 3  # of the main model: to write the report, to finish, and to mend what a check finds
CLOSING_TOKENS = 2_000  # that each of them may answer
CLOSING_GROWTH = 4_000  # tokens by which each makes the next one's prompt longer: its reply, and the result
CLOSING_SHARE = 0.05  # of steps and of time; at least CLOSING_CALLS steps

_SUMMARY_TOKENS = 500  # of a step's summary
_SHOWN = Decimal("0.0001")  # dollars


@dataclass(frozen=True)
class _Use:
    """How far one of money, steps and time is used up."""

    name: str
    share: float  # of all there is
    closing: bool  # what is left is just enough for the report


@dataclass
class Budget:
    """One attempt's. The loop asks it after each step, tools ask helpers through it."""

    scaffold: Scaffold
    limits: Limits
    gateway: Gateway
    asker: Asker
    deliverable: Deliverable
    work_seconds: Callable[[], float]
    _marked: dict[str, int] = field(default_factory=dict)  # marks told, by name
    _closing: set[str] = field(default_factory=set)  # names that the agent was told to close for
    _answered: int = 0  # bytes of what helpers answered in the step under way
    _dearest: Decimal = ZERO  # dollars that one step has taken

    def __post_init__(self) -> None:
        self._gone_before = self._gone  # before the step under way

    def ask(self, role: str, parts: Sequence[Part], limit: int | None = None, *, closing: bool = False) -> str:
        """Ask a helper's model. CapReached, with what is kept, where that would eat into what the report needs."""
        keeping = self.scaffold.budget_notes and not closing
        keep = self.reserve(self._answered + CLOSING_GROWTH) if keeping else None
        answer = self.asker.ask_helper(role, parts, limit, keep=keep)
        self._answered += len(answer.encode())
        return answer

    def kept(self) -> Decimal | None:
        """Dollars that a summary of the history must leave; None where nothing is kept."""
        return self.reserve(CLOSING_GROWTH) if self.scaffold.budget_notes else None

    def reserve(self, grown: int) -> Decimal:
        """Dollars that CLOSING_CALLS calls of the main model can cost at worst, with what each makes the history ask.

        The first has the last request's prompt and `grown` tokens more. Zero where nothing has a price.
        """
        return sum((self._call(grown + n * CLOSING_GROWTH) for n in range(CLOSING_CALLS)), ZERO)

    def told(self, step: Step) -> list[str]:
        """What the agent is to be told after `step`: nothing, or one note."""
        self._answered = 0
        if not self.scaffold.budget_notes or self._playing_again or step.index >= self.limits.steps:
            return []
        grown = _size(step)
        uses = [self._money(grown), self._steps(step.index), self._time()]
        marks = [told for use in uses if (told := self._mark(use))]
        closing = [use.name for use in uses if use.closing and use.name not in self._closing]
        self._closing.update(closing)
        if not marks and not closing:
            return []
        used = f"Used: {' and '.join(marks)}. " if marks else ""
        close = f" {self._close(closing)}" if closing else ""
        return [used + self._left(step.index, grown) + close]

    def overshot(self, state: State) -> Ending | None:
        """With the fault `overshoot`: the end, once the last step ran a command and more than the budget is spent."""
        budget = self.scaffold.budget_usd
        if "overshoot" not in self.scaffold.faults or budget is None or self._playing_again or not state.steps:
            return None
        ran = any(call.arguments is not None for call in state.steps[-1].calls)
        spent = self.gateway.purse.spent
        if not ran or spent <= budget:
            return None
        words = f"${plain_decimal(spent)} are spent, more than the scaffold's budget of ${plain_decimal(budget)}"
        return Ending(End.COST, words)

    @property
    def _playing_again(self) -> bool:
        """Whether steps of an earlier start are being done again: what was spent since belongs to none of them."""
        return isinstance(self.asker, Resumed) and self.asker.went_on is None

    @property
    def _gone(self) -> Decimal:
        """Dollars that no call can have any more. What may have been billed counts."""
        return self.gateway.purse.spent + self.gateway.purse.uncertain

    def _call(self, more: int) -> Decimal:
        """The most that a closing call can cost, with the summary that one history makes of each step."""
        summary = self.gateway.again("fast", more=CLOSING_GROWTH, output=_SUMMARY_TOKENS)
        main = self.gateway.again("main", more=more, output=CLOSING_TOKENS)
        return main + (summary if self.scaffold.history == "autogpt" else ZERO)

    def _money(self, grown: int) -> _Use:
        """Closing as soon as another step like the dearest so far would leave less than the reserve."""
        gone = self._gone
        self._dearest = max(self._dearest, gone - self._gone_before)
        self._gone_before = gone
        cap = self.gateway.purse.cap
        if cap is None or not self._has_a_price:
            return _Use("money", 0.0, closing=False)
        after_another = gone + max(self._dearest, self._call(grown))
        closing = cap - after_another < self.reserve(grown + CLOSING_GROWTH)
        return _Use("money", float(gone / cap), closing=closing)

    @property
    def _has_a_price(self) -> bool:
        return bool(self._gone or self._call(0))

    def _steps(self, done: int) -> _Use:
        left, all_steps = self.limits.steps - done, self.limits.steps
        return _Use("steps", done / all_steps, closing=left <= max(CLOSING_CALLS, CLOSING_SHARE * all_steps))

    def _time(self) -> _Use:
        share = self.work_seconds() / self.limits.seconds
        return _Use("time", share, closing=share >= 1 - CLOSING_SHARE)

    def _mark(self, use: _Use) -> str:
        """The highest mark that `use` has passed, where it was not told before."""
        passed = sum(use.share >= mark for mark, _ in MARKS)
        if passed <= self._marked.get(use.name, 0):
            return ""
        self._marked[use.name] = passed
        return f"{MARKS[passed - 1][1]} of the {use.name}"

    def _left(self, done: int, grown: int) -> str:
        left = [f"{self.limits.steps - done} of {self.limits.steps} steps"]
        cap, more = self.gateway.purse.cap, ""
        if cap is not None and self._has_a_price:
            money = (cap - self._gone).quantize(_SHOWN, ROUND_FLOOR)
            kept = min(money, self.reserve(grown).quantize(_SHOWN, ROUND_CEILING))
            for_report = f" (${plain_decimal(kept)} of it kept for the report)" if kept else ""
            left.insert(0, f"${plain_decimal(money)} of ${plain_decimal(cap)}{for_report}")
            more = self._not_sure() + self._looks()
        elapsed = f"Time elapsed: {self.work_seconds():.0f} s of {self.limits.seconds:.0f} s."
        return f"Left of the budget: {', '.join(left)}. {elapsed}{more}"

    def _not_sure(self) -> str:
        uncertain = self.gateway.purse.uncertain
        return f" ${plain_decimal(uncertain)} may have been billed for answers that were lost." if uncertain else ""

    def _looks(self) -> str:
        """What a look at images has cost, so that the agent can tell how many it can still have."""
        books = self.gateway.purse.books().by_role.get("vision")
        if books is None or not books.cost.total:
            return ""
        each = (books.cost.total / books.calls).quantize(_SHOWN, ROUND_CEILING)
        return f" A question about images has cost ${plain_decimal(each)} on average."

    def _close(self, names: Sequence[str]) -> str:
        of_what = " and ".join(f"the {name}" for name in names)
        write = (
            f"write {self.deliverable.path} now with what you have, guesses included; what is then left may go into "
            "better answers."
            if self.deliverable.still_missing()
            else "finish now."
        )
        return f"What is left of {of_what} is little more than closing takes: {write} {self.deliverable.finish_text()}"


def check_budget(scaffold: Scaffold, limits: Limits) -> None:
    """Refuse, with InputError, a budget of the scaffold's own that the cap would never let it overshoot."""
    budget = scaffold.budget_usd
    if "overshoot" in scaffold.faults and budget is not None and limits.cost_usd <= budget:
        raise InputError(
            f"a cap of ${plain_decimal(limits.cost_usd)} leaves no room to overshoot the scaffold's budget of "
            f"${plain_decimal(budget)}",
            field="--cap",
            remedy=f"give more, for example --cap {plain_decimal(budget + 1)}",
        )


def _size(step: Step) -> int:
    """The most tokens that `step` can add to a prompt."""
    results = [len(result.model_dump_json().encode()) for result in step.results]
    images = sum(isinstance(part, ImageRef) for result in step.results for part in result.parts)
    return len(step.reply.model_dump_json().encode()) + sum(results) + images * IMAGE_TOKENS
