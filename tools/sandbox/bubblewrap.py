"""The default sandbox: bubblewrap, with one long-lived process of ours inside that starts all commands.

Commands are children of that process, so they begin with no privilege, no descriptor and no variable of the host,
and end with it. It ends when the owner does: it watches the owner itself, and not (as bwrap's --die-with-parent) the
owner's thread, which may end long before the sandbox does.
"""

from __future__ import annotations

import contextlib
import importlib.resources
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import IO

from . import layout, procs
from .common import EXEC_LABEL, HostFolders
from .environment import command_environment, prepare_home
from .interpreter import own_interpreter, system_interpreter
from .label import new_label
from .limits import Limits, make_limits, settable
from .network.gate import PORT, Gate, proxy_variables
from .protocol import (
    ExecResult,
    Fingerprint,
    Guarantee,
    Launch,
    Mount,
    SandboxError,
    SandboxSpec,
    SandboxUnavailable,
    Workspace,
)
from .remote import RemoteCommand, halted, listen
from .roots import Root
from .running import Pipes, Running, finish, unrunnable
from .stage import NO_OVERLAY
from .system import fingerprint

END_SECONDS = 10.0  # for the kernel to end all that is inside
REMEDY = "allow user namespaces to this user, or choose --sandbox local, which holds nothing back"


class BubblewrapSandbox(HostFolders):
    """See `protocol.Sandbox`. Made ready by `start`."""

    def __init__(self, spec: SandboxSpec, workspace: Workspace, owner_env: Mapping[str, str]) -> None:
        env = command_environment(
            owner_env,
            home=layout.HOME,
            user=layout.user().name,
            path=layout.inside_path(spec.rootfs),
            proxies=proxy_variables() if spec.network != "none" else None,
        )
        super().__init__(spec, workspace, Mount(inside=layout.CONTROL, host=workspace.scratch / "control"), env)
        program = shutil.which("bwrap", path=owner_env.get("PATH", os.defpath))
        self._program = Path(program) if program else None
        self._limits = Limits()
        self._interpreter = system_interpreter()
        self._root: Root | None = None
        self._bwrap: subprocess.Popen[bytes] | None = None
        self._init: procs.Entry | None = None
        self._numbers = count(1)
        self._lifeline: int | None = None
        self._owner_env = owner_env
        self._gate: Gate | None = None
        self._closing = threading.Lock()

    @property
    def holds(self) -> frozenset[Guarantee]:
        limits = {Guarantee.MEMORY_LIMIT, Guarantee.PROCESS_LIMIT}
        return (frozenset(Guarantee) - limits) | self._limits.holds

    @property
    def _python(self) -> Sequence[str]:
        return self._interpreter.argv

    @property
    def system_writable(self) -> bool:
        return self._root is not None and self._root.writable

    def fingerprint(self) -> Fingerprint:
        return fingerprint(self._spec, writable=self.system_writable)

    def start(self) -> None:
        """Lay out the inside and wait until a process of ours runs there. SandboxUnavailable where that fails."""
        if self._program is None:
            raise SandboxUnavailable(
                "the sandbox needs bwrap, which is not on PATH",
                remedy="install the package bubblewrap, or choose --sandbox local, which holds nothing back",
            )
        self._prepare()
        try:
            # Only real root may show a system that can be changed, and not in every container: else it is read-only.
            if os.getuid() != 0 or not self._started(self._program, writable=True):
                self._started(self._program, writable=False)
            if self._gate:
                self._gate.open()
        except BaseException:
            self.close()
            raise

    def _prepare(self) -> None:
        """All that does not depend on how the system is shown."""
        scratch = self._workspace.scratch
        scratch.chmod(0o700)
        if self._spec.rootfs is not None:
            self._interpreter = own_interpreter()
        outside = str(self._spec.rootfs or "")
        prepare_home(scratch / "home", tuple(f"{outside}{folder}" for folder in layout.inside_path(self._spec.rootfs)))
        for name in ("init.py", "enter.py", "stage.py"):
            text = importlib.resources.files(__package__ or "").joinpath(name).read_text(encoding="utf-8")
            (scratch / name).write_text(text, encoding="utf-8")
        if self._spec.network != "none":
            self._gate = Gate(self._spec, self._owner_env, self._refusals)
        self._limits = make_limits(self._spec)

    def _started(self, program: Path, *, writable: bool) -> bool:
        """Whether the first process inside runs. False where the system can't be shown `writable` here."""
        self._root = layout.make_root(self._spec, self._workspace, self._control, self._env, writable=writable)
        with tempfile.TemporaryFile() as log:
            self._bwrap = self._spawn(program, self._root, log)
            return self._ready(self._bwrap, log)

    def _spawn(self, program: Path, root: Root, log: IO[bytes]) -> subprocess.Popen[bytes]:
        scratch = self._workspace.scratch
        with contextlib.ExitStack() as stack:
            listener = stack.enter_context(listen(scratch))
            owner = self._watch_owner(stack)
            join = [os.open(file, os.O_WRONLY | os.O_CLOEXEC) for file in self._limits.join]
            for fd in join:
                stack.callback(os.close, fd)
            rlimits = settable(self._limits.rlimits)
            config = {"listener": listener.fileno(), "owner": owner, "join": join, "rlimits": rlimits}
            config |= {"label": new_label()}
            door = [self._gate.theirs.fileno()] if self._gate else []
            config |= {"door": (*door, PORT)} if door else {}
            workspace, control, env = self._workspace, self._control, self._env
            inside = layout.layout(self._spec, workspace, control, env, program, root, self._interpreter)
            first = [*self._interpreter.argv, "-I", "-S", layout.INIT, json.dumps(config)]
            return subprocess.Popen(
                [*_stage(scratch, root), str(program), *inside, *first],
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                pass_fds=(listener.fileno(), owner, *join, *door),
                start_new_session=True,
            )

    def _ready(self, bwrap: subprocess.Popen[bytes], log: IO[bytes]) -> bool:
        try:
            self.exec(["true"], timeout=10)
            self._init = procs.descendants(bwrap.pid, procs.table())[0]
        except (SandboxError, IndexError) as error:
            with contextlib.suppress(subprocess.TimeoutExpired):  # what it says comes before its end
                bwrap.wait(1)
            if bwrap.returncode == NO_OVERLAY:
                return False
            log.seek(0)
            said = log.read().decode(errors="replace").strip().splitlines()
            raise SandboxUnavailable(
                f"the bubblewrap sandbox can't be set up from kernel namespaces: {said[-1] if said else error}",
                remedy=REMEDY,
            ) from error
        return True

    def close(self) -> None:
        with self._closing:
            if self._gate:
                self._gate.close()
            bwrap, self._bwrap = self._bwrap, None
            if bwrap is not None:
                roots = [self._init] if self._init else procs.descendants(bwrap.pid, procs.table())
                # The kernel ends all others with the first process inside, and it is gone only when they are.
                procs.kill_all(
                    lambda: [procs.to_process(entry) for entry in roots if procs.same(entry)], seconds=END_SECONDS
                )
                bwrap.kill()
                bwrap.wait()
            if self._lifeline is not None:
                os.close(self._lifeline)
                self._lifeline = None
            self._limits.close()

    # --- commands ---

    def exec(
        self, argv: Sequence[str], *, timeout: float, stdin: bytes = b"", limit: int = 1 << 20, cwd: str | None = None
    ) -> ExecResult:
        if refusal := unrunnable(argv):
            return refusal
        number = str(next(self._numbers))
        env = {**self._env, EXEC_LABEL: number}
        if self._bwrap is None or self._bwrap.poll() is not None:
            raise SandboxError("the sandbox has ended")
        with Pipes(stdin) as pipes:
            command = RemoteCommand(self._workspace.scratch, argv, env, cwd or self._workspace.start, pipes.theirs)
            with contextlib.closing(command):
                root = procs.read_entry(command.pid)
                running = Running(
                    *pipes.started(),
                    wake=command.fileno(),
                    poll=command.poll,
                    kill=lambda: self._kill_command(root, f"{EXEC_LABEL}={number}"),
                )
                return finish(running, timeout=timeout, stdin=stdin, limit=limit)

    def launch(self, argv: Sequence[str], *, cwd: str | None = None) -> Launch:
        scratch = self._workspace.scratch
        enter = (sys.executable, "-I", "-S", str(scratch / "enter.py"), str(scratch / "init.sock"))
        return Launch(argv=(*enter, cwd or self._workspace.start, *argv), env=dict(self._env))

    def halted(self) -> contextlib.AbstractContextManager[bool]:
        return halted(self._workspace.scratch)

    def _inside(self) -> list[procs.Entry]:
        if self._init is None or not procs.same(self._init):
            return []
        return procs.descendants(self._init.pid, procs.table())

    def _watch_owner(self, stack: contextlib.ExitStack) -> int:
        """A descriptor that becomes readable when this process has ended."""
        try:
            fd = os.pidfd_open(os.getpid())
        except OSError:  # a kernel before 5.3: a pipe that we alone hold open
            if self._lifeline is not None:
                os.close(self._lifeline)
            fd, self._lifeline = os.pipe()
        stack.callback(os.close, fd)
        return fd


def _stage(scratch: Path, root: Root) -> list[str]:
    """What is started in place of bwrap, and becomes it, where overlays have to be mounted first."""
    if not root.overlays:
        return []
    overlays = json.dumps(root.overlays, default=os.fspath)
    return [sys.executable, "-I", "-S", str(scratch / "stage.py"), str(root.folder), overlays]
