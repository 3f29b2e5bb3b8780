"""One attempt: ask, act, record, until there is a reason to end. Read from top to bottom."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from agentctl.base.errors import Cancelled
from agentctl.tools.finish import Checks
from agentctl.tools.sandbox.protocol import SandboxError
from agentctl.tools.tool import ToolContext, spec_of

from .acting import Acted, Actor
from .asking import Asker
from .budget import Budget
from .ends import END_OF_FAULT, End, Ending
from .events import ToolsOffered
from .history import History, NoRoom
from .models.gateway import ModelFailed
from .models.protocol import Fault, FinishReason, RawReply
from .models.wire import encode_tool
from .protocols import Decoded, Protocol
from .protocols.protocol import Tools
from .purse import CapReached
from .record import Record, RecordFull
from .repeats import Repeats
from .scaffold import ATTEMPTS, Scaffold
from .spec import Limits
from .state import State, Step
from .usage import normalise

_RESULT_SHARE = 8  # one result may take at most this part of the model's window


@dataclass
class Loop:
    """An agent at work on one task."""

    scaffold: Scaffold
    protocol: Protocol
    history: History
    asker: Asker
    tools: Tools
    checks: Checks  # those that the finish tool asks
    context: ToolContext
    budget: Budget
    limits: Limits
    record: Record
    work_seconds: Callable[[], float]

    def __post_init__(self) -> None:
        self._offered = self.protocol.wire_tools([spec_of(tool) for tool in self.tools.values()])
        self.wire_tools = [encode_tool(spec) for spec in self._offered]
        longest = max(2_000, self.asker.context_window("main") // _RESULT_SHARE)
        self._actor = Actor(self.tools, self.context, self.record, longest)
        self._repeats = Repeats(self.scaffold.repeat_notice, self.scaffold.repeat_end)
        self._idle = 0
        self._unread = 0  # replies in a row that could not be read

    def run(self, state: State) -> Ending:
        """Take steps until one of them, a limit or a failure ends the attempt. `state` holds all that was done."""
        self.record.emit(ToolsOffered(tools=self._offered))
        try:
            while True:
                ending = self._limit_reached(state) or self._step(state)
                if ending:
                    return ending
        except CapReached as reached:
            return Ending(End.COST, str(reached), reached.because_uncertain)
        except NoRoom as full:
            return Ending(End.CONTEXT, str(full))
        except ModelFailed as failed:
            return Ending(END_OF_FAULT[failed.fault], failed.words)
        except SandboxError as error:
            return Ending(End.SANDBOX, str(error))
        except Cancelled as cancelled:
            return Ending(End.CANCELLED, str(cancelled))
        except RecordFull as full:
            return Ending(End.CRASH, full.problem)

    def _limit_reached(self, state: State) -> Ending | None:
        if self.record.disk_is_full:
            return Ending(End.CRASH, "the disk is full")
        if len(state.steps) >= self.limits.steps:
            return Ending(End.STEPS, f"{self.limits.steps} steps were taken")
        if self.work_seconds() >= self.limits.seconds:
            return Ending(End.TIME, f"{self.limits.seconds:g} s of work are over")
        return self.budget.overshot(state)

    def _step(self, state: State) -> Ending | None:
        index = len(state.steps) + 1
        reply = self._ask(state)
        decoded = self.protocol.decode(reply, index, self.tools)
        usage = normalise("openai_chat", reply.usage)
        state.put(Step(index, decoded.message, usage=usage))
        self.history.keep(state)
        if reply.finish is FinishReason.REFUSED and not decoded.calls:
            return Ending(End.REFUSED, reply.refusal or reply.finish_raw or "the model declined")
        acted = self._actor.act(decoded.calls)
        notes: list[str] = []
        ending = acted.ending or self._judge(decoded, acted, notes)
        if ending is None:
            notes += self.budget.told(Step(index, decoded.message, acted.results))
        state.put(Step(index, decoded.message, acted.results, tuple(notes), complete=True, usage=usage))
        self.history.keep(state)
        if ending is None:
            self.history.settle(state)
        return ending

    def _ask(self, state: State) -> RawReply:
        """The model's next reply. A request that its provider calls too long is made shorter once."""
        try:
            return self.asker.ask("main", self.history.render(state), self.wire_tools)
        except ModelFailed as failed:
            if failed.fault is not Fault.CONTEXT or not self.history.shrink(state):
                raise
        return self.asker.ask("main", self.history.render(state), self.wire_tools)

    def _judge(self, decoded: Decoded, acted: Acted, notes: list[str]) -> Ending | None:
        """Whether a step that did not end the attempt is a reason to. Adds to `notes` what the model is told."""
        self._unread = 0 if decoded.calls else self._unread + 1
        if decoded.calls:
            self._idle = 0 if any(call.error is None for call in decoded.calls) else self._idle + 1
        elif ending := self._said_without_calling(decoded, notes):
            return ending
        if acted.waited:
            self._repeats.forget()
        if ending := self._repeats.see(decoded.calls, acted.results, notes):
            return ending
        if self._unread >= ATTEMPTS and "unparsable-ends" in self.scaffold.faults:
            return Ending(End.FORMAT, f"{self._unread} replies in a row without a command that could be read")
        if self._idle >= self.scaffold.idle_replies:
            return Ending(End.FORMAT, f"{self._idle} replies in a row without a call that could be run")
        return None

    def _said_without_calling(self, decoded: Decoded, notes: list[str]) -> Ending | None:
        """A reply without a call: taken for "done" where the deliverable stands, else answered with what to do.

        It stands where there are checks, nothing of it is missing, and each check would let a call of `finish` through.
        """
        self._idle += 1
        deliverable = self.context.deliverable
        readable = decoded.says_something and not decoded.problem and not decoded.cut
        if readable and self.checks and not deliverable.still_missing():
            refused = self.checks.refusal(self.context)
            if refused is None:
                return Ending(End.FINISHED, "said in words, without the finish tool")
            notes.append(refused.words)
        reason = "was cut off at the output limit" if decoded.cut else decoded.problem or "holds no tool call"
        notes.append(
            f"Your last reply {reason}. Act by calling one of the tools ({', '.join(self.tools)}). "
            f"{deliverable.finish_text()}"
        )
        return None
