"""One attempt: ask, act, record, until there is a reason to end. Read from top to bottom."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agentctl.base.deliverable import Severity
from agentctl.base.errors import Cancelled
from agentctl.base.messages import Call, ImageRef, Result, Status, Text
from agentctl.base.text import cut
from agentctl.tools.sandbox.protocol import SandboxError
from agentctl.tools.tool import ToolContext, ToolResult, spec_of

from .asking import Asker
from .ends import END_OF_FAULT, End
from .events import Ran, ToolsOffered
from .history import History
from .models.gateway import ModelFailed
from .models.protocol import FinishReason
from .models.wire import encode_tool
from .protocols import Decoded, Protocol
from .protocols.protocol import Tools
from .purse import CapReached
from .record import Record, RecordFull
from .scaffold import Scaffold
from .spec import Limits
from .state import State, Step

_RESULT_SHARE = 8  # one result may take at most this part of the model's window
_WAITING = 5.0  # seconds; a call that took so long was waiting for something, which is no sign of being stuck


@dataclass(frozen=True)
class Ending:
    """Why the loop ended."""

    end: End
    detail: str = ""
    because_uncertain: bool = False  # an end by cost that spent money alone would not have caused


@dataclass
class Loop:
    """An agent at work on one task."""

    scaffold: Scaffold
    protocol: Protocol
    history: History
    asker: Asker
    tools: Tools
    context: ToolContext
    limits: Limits
    record: Record
    work_seconds: Callable[[], float]

    def __post_init__(self) -> None:
        self._offered = self.protocol.wire_tools([spec_of(tool) for tool in self.tools.values()])
        self.wire_tools = [encode_tool(spec) for spec in self._offered]
        self._idle = 0
        self._repeats = 0
        self._last: object = None

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
        return None

    def _step(self, state: State) -> Ending | None:
        index = len(state.steps) + 1
        reply = self.asker.ask("main", self.history.render(state), self.wire_tools)
        decoded = self.protocol.decode(reply, index, self.tools)
        state.put(Step(index, decoded.message))
        self.history.render(state)
        if reply.finish is FinishReason.REFUSED and not decoded.calls:
            return Ending(End.REFUSED, reply.refusal or reply.finish_raw or "the model declined")
        results, ending = self._act(decoded.calls)
        notes: list[str] = []
        if decoded.calls:
            self._idle = 0 if any(call.error is None for call in decoded.calls) else self._idle + 1
        else:
            ending = ending or self._said_without_calling(decoded, notes)
        ending = ending or self._stuck(decoded.calls, results, notes)
        if ending is None and self._idle >= self.scaffold.idle_replies:
            ending = Ending(End.FORMAT, f"{self._idle} replies in a row without a call that could be run")
        state.put(Step(index, decoded.message, tuple(results), tuple(notes), complete=True))
        self.history.render(state)
        return ending

    def _act(self, calls: Sequence[Call]) -> tuple[list[Result], Ending | None]:
        """Run `calls` in order. Every one gets a result, whatever happens, so that the conversation stays legal."""
        results: list[Result] = []
        ending: Ending | None = None
        for call in calls:
            if ending is not None:
                why = f"Not run: the attempt ended before ({ending.end})."
                results.append(Result(call_id=call.id, status=Status.NOT_RUN, parts=(Text(text=why),)))
                continue
            began = time.monotonic()
            outcome, ending = self._run(call)
            spent = round(time.monotonic() - began, 3)
            if spent >= _WAITING:
                self._repeats = 0
            self.record.emit(
                Ran(
                    call=call.id,
                    name=call.name,
                    status=outcome.status,
                    seconds=spent,
                    exit_code=outcome.exit_code,
                    saved_as=outcome.saved_as,
                )
            )
            results.append(Result(call_id=call.id, status=outcome.status, parts=self._bounded(outcome)))
            if outcome.finish:
                ending = Ending(End.FINISHED)
        return results, ending

    def _run(self, call: Call) -> tuple[ToolResult, Ending | None]:
        if call.arguments is None:
            return ToolResult.error(call.error or "Not run: the call could not be read."), None
        tool = self.tools[call.name]
        try:
            self.context.cancel.check()
            return tool.run(tool.arguments.model_validate(call.arguments, strict=False), self.context), None
        except Cancelled as cancelled:
            told = ToolResult.of("Cancelled before it ended.", status=Status.CANCELLED)
            return told, Ending(End.CANCELLED, str(cancelled))
        except SandboxError as error:
            return ToolResult.error("The sandbox failed."), Ending(End.SANDBOX, str(error))
        except CapReached as reached:
            told = ToolResult.error("Not done: it would not fit the budget.")
            return told, Ending(End.COST, str(reached), reached.because_uncertain)
        except (ModelFailed, RecordFull):
            raise
        except Exception as error:  # a tool's fault is told to the model: it may find another way
            return ToolResult.error(f"{call.name} failed: {type(error).__name__}: {error}".rstrip(": ")), None

    def _bounded(self, outcome: ToolResult) -> tuple[Text | ImageRef, ...]:
        limit = max(2_000, self.asker.context_window("main") // _RESULT_SHARE)
        return tuple(
            Text(text=cut(part.text, limit, saved_as=outcome.saved_as)) if isinstance(part, Text) else part
            for part in outcome.parts
        )

    def _said_without_calling(self, decoded: Decoded, notes: list[str]) -> Ending | None:
        """A reply without a call: taken for "done" where the deliverable stands, else answered with what to do."""
        self._idle += 1
        if decoded.says_something and self.scaffold.finish_check and not decoded.cut:
            errors = [f for f in self.context.deliverable.check() if f.severity is Severity.ERROR]
            if not errors and not self.context.deliverable.still_missing():
                return Ending(End.FINISHED, "said in words, without the finish tool")
        reason = "was cut off at the output limit" if decoded.cut else "holds no tool call"
        notes.append(
            f"Your last reply {reason}. Act by calling one of the tools "
            f"({', '.join(self.tools)}). {self.context.deliverable.finish_text()}"
        )
        return None

    def _stuck(self, calls: Sequence[Call], results: Sequence[Result], notes: list[str]) -> Ending | None:
        """Notice the same calls with the same answers over and over; tell the model, then end."""
        this = [(call.name, call.arguments or call.raw) for call in calls], [r.parts for r in results]
        self._repeats = self._repeats + 1 if calls and this == self._last else 1
        self._last = this
        if self._repeats >= self.scaffold.repeat_end:
            return Ending(End.STUCK, f"the same call got the same answer {self._repeats} times in a row")
        if self._repeats >= self.scaffold.repeat_notice:
            notes.append(
                f"You have made the same call {self._repeats} times in a row and got the same answer each time. "
                "Try something else."
            )
        return None
