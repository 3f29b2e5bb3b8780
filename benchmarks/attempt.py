"""One attempt whose sandbox stands: the agent at work in it, and the record of that, to its last word."""

from __future__ import annotations

import traceback
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from agentctl.agents.account import Account
from agentctl.agents.asking import Asker, Asking, Resumed
from agentctl.agents.budget import Budget
from agentctl.agents.clients import Clients
from agentctl.agents.context import make_context
from agentctl.agents.ends import End, Ending, consequence
from agentctl.agents.events import Ended, NetworkRefused, Note
from agentctl.agents.history.make import make_history
from agentctl.agents.loop import Loop
from agentctl.agents.manifest import AttemptResult, Manifest, attempt_key, now, software, source_digest
from agentctl.agents.models.gateway import Gateway
from agentctl.agents.prompting import prompt_of
from agentctl.agents.protocols import PROTOCOLS
from agentctl.agents.record import Listener, Record, RecordFull, monotonic
from agentctl.agents.secrets import Secrets
from agentctl.agents.spec import AttemptSpec
from agentctl.agents.state import State
from agentctl.agents.task import Collected, Task
from agentctl.agents.toolbox import make_tools
from agentctl.agents.transcript import Transcript
from agentctl.base.cancel import Cancel
from agentctl.base.errors import SetupError
from agentctl.base.jsonio import digest, write_atomically
from agentctl.base.messages import Message, Role, Text
from agentctl.prompts.compose import Place, Prompt
from agentctl.tools.finish import make_checks
from agentctl.tools.sandbox.protocol import Refusal, Sandbox
from agentctl.tools.tool import Tool, ToolContext

from .keeping import AtStart, keep_workspace
from .resume import Before


@dataclass(frozen=True)
class Left:
    """What an attempt left: its record, its result, and the deliverable that was collected into the record."""

    record: Path
    result: AttemptResult
    deliverable: Path | None


class Attempt:
    """One attempt whose sandbox stands."""

    def __init__(
        self,
        spec: AttemptSpec,
        task: Task,
        sandbox: Sandbox,
        clients: Clients,
        account: Account,
        before: Before,
        cancel: Cancel,
        secrets: Secrets,
    ) -> None:
        self._spec = spec
        self._task = task
        self._sandbox = sandbox
        self._kind = clients.kind
        self._account = account
        self._before = before
        self._cancel = cancel
        self._secrets = secrets
        self._checks = make_checks(spec.scaffold.checks, faults=spec.scaffold.faults)
        self._tools: dict[str, Tool[Any]] = make_tools(spec.scaffold, spec.limits, self._checks)
        self._protocol = PROTOCOLS[spec.scaffold.protocol]
        self._at_start = AtStart.of(sandbox)

    def run(self, listener: Listener | None) -> Left:
        """Let the agent work, and write the record to its last word. SetupError where the disk is full at the start."""
        prompt = self._prompt()
        manifest = self._manifest(prompt)
        first = self._before.hand_over(self._spec.record)
        encoded = manifest.model_dump_json(indent=1).encode()
        record = Record(self._spec.record, encoded, self._secrets, now=monotonic, first=first)
        state = State(
            prefix=(
                Message(role=Role.SYSTEM, parts=(Text(text=prompt.system_text),)),
                Message(role=Role.USER, parts=(Text(text=prompt.task),)),
            )
        )
        try:
            loop = self._begun(record, state)
        except BaseException as error:
            self._close_tools(record)
            record.discard()
            if isinstance(error, RecordFull):
                raise SetupError("the disk is full", file=record.folder, remedy="make room") from None
            raise
        if listener:
            for event in first:
                listener(event)
            record.listen(listener)
        try:
            ending = self._work(record, loop, state)
            result, deliverable = self._ended(record, manifest, loop, state, ending)
            record.finish(result.model_dump_json(indent=1).encode())
        finally:
            record.close()
        return Left(record.folder, result, deliverable)

    def _begun(self, record: Record, state: State) -> Loop:
        """The loop, with its first request made and found to fit the cap."""
        transcript = Transcript(record, self._secrets)
        gateway = self._account.gateway(record)
        asker: Asker = Asking(gateway, transcript)
        if self._before.replies:
            asker = Resumed(gateway, transcript, self._before.replies, record=record.emit, now=lambda: record.elapsed)
        loop = self._loop(record, gateway, asker, transcript)
        first = loop.history.render(state)
        if not self._before.replies:
            gateway.check_first_call("main", first, loop.wire_tools)
        return loop

    def _loop(self, record: Record, gateway: Gateway, asker: Asker, transcript: Transcript) -> Loop:
        def work_seconds() -> float:
            began = asker.went_on if isinstance(asker, Resumed) else 0.0
            if began is None:  # what was done before is being done again: it was counted then, and no limit ends it now
                return 0.0
            return self._before.seconds + record.elapsed - began - asker.waited

        context = make_context(self._spec.scaffold, self._tools, self._sandbox)
        limits, deliverable = self._spec.limits, self._task.deliverable(self._sandbox)
        budget = Budget(self._spec.scaffold, limits, gateway, asker, deliverable, work_seconds)
        return Loop(
            scaffold=self._spec.scaffold,
            protocol=self._protocol,
            history=make_history(
                *(self._spec.scaffold, self._protocol, transcript, context, asker, record.emit, self._tools, limits),
                budget.kept,
            ),
            asker=asker,
            tools=self._tools,
            checks=self._checks,
            context=ToolContext(
                sandbox=self._sandbox,
                deliverable=deliverable,
                cancel=self._cancel,
                outputs=record.outputs,
                ask=budget.ask,
                keep_image=record.keep_image,
                emit=lambda kind, text: record.emit(Note(kind=kind, text=text)),
                seconds_left=lambda: limits.seconds - work_seconds(),
            ),
            budget=budget,
            limits=limits,
            record=record,
            work_seconds=work_seconds,
        )

    def _work(self, record: Record, loop: Loop, state: State) -> Ending:
        """Let the agent work until there is a reason to end."""

        def refused(refusal: Refusal) -> None:
            with suppress(RecordFull):
                record.emit(NetworkRefused(refusal=refusal))

        self._sandbox.on_refusal(refused)
        try:
            ending = loop.run(state)
        except Exception as error:  # a fault of ours is an end like any other: what was spent and done is kept
            ending = Ending(End.CRASH, f"{type(error).__name__}: {error}")
            with suppress(RecordFull):
                record.emit(Note(kind="crash", text=traceback.format_exc()))
        finally:
            self._close_tools(record)
            self._sandbox.on_refusal(None)
        with suppress(RecordFull):  # the result will say it too
            record.emit(Ended(end=ending.end, detail=ending.detail))
        return ending

    def _close_tools(self, record: Record) -> None:
        for name, tool in self._tools.items():
            try:
                tool.close()
            except Exception as error:  # what it left running ends with the sandbox
                with suppress(RecordFull):
                    record.emit(Note(kind="crash", text=f"closing {name}: {type(error).__name__}: {error}"))

    def _ended(
        self, record: Record, manifest: Manifest, loop: Loop, state: State, ending: Ending
    ) -> tuple[AttemptResult, Path | None]:
        """Collect, close the sandbox, and sum up. Returns the record's last word, and the collected deliverable."""
        work_seconds = max(loop.work_seconds(), self._before.seconds)
        failure = None
        try:
            in_material = "report-in-capsule" in self._spec.scaffold.faults
            collected = self._task.collect(self._sandbox, record.folder, also_in_material=in_material)
        except Exception as error:  # a dead sandbox or a full disk must not cost the result
            failure = f"can't collect what the agent left: {error}"
            collected = Collected(deliverable=None, problem=failure)
        self._keep(record)
        self._lock_environment(record)
        self._sandbox.close()  # before the result is written: what still runs inside may be what fills the disk
        found = collected.deliverable
        follows = consequence(ending.end, because_uncertain=ending.because_uncertain)
        if failure and follows.counts:  # what the agent left is not known, so nothing is said of it
            ending, follows = Ending(End.CRASH, failure), consequence(End.CRASH)
        result = AttemptResult(
            attempt_key=manifest.attempt_key,
            kind=manifest.kind,
            end=ending.end,
            detail=self._secrets.cut(ending.detail),
            infrastructure=not follows.counts,
            steps=len(state.steps),
            work_seconds=round(work_seconds, 3),
            waited_seconds=round(loop.asker.waited, 3),
            spend=self._account.spend(),
            deliverable=found.name if found else None,
            deliverable_digest=digest(found.read_bytes()) if found else None,
            deliverable_problem=collected.problem,
            provenance=collected.provenance,
        )
        return result, found

    def _keep(self, record: Record) -> None:
        """Keep what the spec says of the workspace. Whatever hinders that, it costs no result."""
        stopped = self._cancel.is_set()
        end = monotonic() + (5 if stopped else 3600 if self._spec.keep == "all" else 60)  # seconds
        try:
            self._sandbox.kill(self._sandbox.processes())  # what still runs may change what is copied
            keep_workspace(
                self._sandbox,
                record.folder,
                self._spec.keep,
                self._at_start,
                deliverable=self._task.deliverable(self._sandbox).path,
                secrets=self._secrets,
                over=lambda: monotonic() > end or self._cancel.is_set() is not stopped,
            )
        except Exception as error:
            with suppress(RecordFull):
                record.emit(Note(kind="keeping", text=f"the workspace is not kept: {type(error).__name__}: {error}"))

    def _lock_environment(self, record: Record) -> None:
        """Write down what is installed by now. Whatever hinders that, it costs no result."""
        try:
            lock = self._sandbox.environment().model_dump_json(indent=1).encode()
            write_atomically(record.folder / "environment.lock", self._secrets.cut_line(lock))
        except Exception as error:
            with suppress(RecordFull):
                record.emit(Note(kind="environment", text=f"what is installed is not known: {error}"))

    def _prompt(self) -> Prompt:
        place = Place(network=self._spec.sandbox.network, apt=self._sandbox.fingerprint().apt)
        return prompt_of(self._spec.scaffold, self._tools, self._task.text(self._sandbox.workspace), place)

    def _manifest(self, prompt: Prompt) -> Manifest:
        fingerprint = self._sandbox.fingerprint()
        return Manifest(
            record_id=uuid4().hex,
            attempt_key=attempt_key(self._spec, prompt_digest=prompt.digest, fingerprint=fingerprint),
            kind=self._kind,
            created=now(),
            spec=self._spec,
            prompt_digest=prompt.digest,
            source_digest=source_digest(),
            fingerprint=fingerprint,
            prices=self._account.prices,
            software=software(),
        )
