"""Running the calls of one reply, in order, each with its result."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from agentctl.base.errors import Cancelled
from agentctl.base.messages import Call, ImageRef, Result, Status, Text
from agentctl.base.text import cut
from agentctl.tools.sandbox.protocol import SandboxError
from agentctl.tools.tool import ToolContext, ToolResult

from .ends import End, Ending
from .events import Ran
from .models.gateway import ModelFailed
from .protocols.protocol import Tools
from .purse import CapReached
from .record import Record, RecordFull

_WAITING = 5.0  # seconds; a call that took so long was waiting for something, which is no sign of being stuck


@dataclass(frozen=True)
class Acted:
    """What came of a reply's calls."""

    results: tuple[Result, ...]
    ending: Ending | None = None
    waited: bool = False  # one of them took long


@dataclass(frozen=True)
class Actor:
    """Runs calls. A result is at most `longest` characters long."""

    tools: Tools
    context: ToolContext
    record: Record
    longest: int

    def act(self, calls: Sequence[Call]) -> Acted:
        """Run `calls` in order. Every one gets a result, whatever happens, so that the conversation stays legal."""
        results: list[Result] = []
        ending: Ending | None = None
        waited = False
        for call in calls:
            if ending is not None:
                why = f"Not run: the attempt ended before ({ending.end})."
                results.append(Result(call_id=call.id, status=Status.NOT_RUN, parts=(Text(text=why),)))
                continue
            began = time.monotonic()
            outcome, ending = self._run(call)
            spent = round(time.monotonic() - began, 3)
            waited = waited or spent >= _WAITING
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
        return Acted(tuple(results), ending, waited)

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
            if reached.kept is not None:
                words = "Not done: what is left of the money is kept for the report. Write it, and finish."
                return ToolResult.error(f"{words}\n[{reached}]"), None
            told = ToolResult.error("Not done: it would not fit the budget.")
            return told, Ending(End.COST, str(reached), reached.because_uncertain)
        except (ModelFailed, RecordFull):
            raise
        except Exception as error:  # a tool's fault is told to the model: it may find another way
            return ToolResult.error(f"{call.name} failed: {type(error).__name__}: {error}".rstrip(": ")), None

    def _bounded(self, outcome: ToolResult) -> tuple[Text | ImageRef, ...]:
        return tuple(
            Text(text=cut(part.text, self.longest, saved_as=outcome.saved_as)) if isinstance(part, Text) else part
            for part in outcome.parts
        )
