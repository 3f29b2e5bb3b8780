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
from .limits import Limits, make_limits, settable
from .protocol import (
    ExecResult,
    Guarantee,
    Launch,
    Mount,
    SandboxError,
    SandboxSpec,
    SandboxUnavailable,
    Workspace,
)
from .remote import RemoteCommand, listen
from .running import Pipes, Running, finish, unrunnable

END_SECONDS = 10.0  # for the kernel to end all that is inside
REMEDY = "allow user namespaces to this user, or choose --sandbox local, which holds nothing back"


class BubblewrapSandbox(HostFolders):
    """See `protocol.Sandbox`. Made ready by `start`."""

    def __init__(self, spec: SandboxSpec, workspace: Workspace, owner_env: Mapping[str, str]) -> None:
        env = command_environment(
            owner_env,
            home=layout.HOME,
            user=layout.user_name(),
            path=layout.inside_path(),
            network=spec.network == "open",
        )
        super().__init__(spec, workspace, Mount(inside=layout.CONTROL, host=workspace.scratch / "control"), env)
        program = shutil.which("bwrap", path=owner_env.get("PATH", os.defpath))
        self._program = Path(program) if program else None
        self._limits = Limits()
        self._bwrap: subprocess.Popen[bytes] | None = None
        self._init: procs.Entry | None = None
        self._numbers = count(1)
        self._lifeline: int | None = None
        self._closing = threading.Lock()

    @property
    def holds(self) -> frozenset[Guarantee]:
        limits = {Guarantee.MEMORY_LIMIT, Guarantee.PROCESS_LIMIT}
        return (frozenset(Guarantee) - limits) | self._limits.holds

    def start(self) -> None:
        """Lay out the inside and wait until a process of ours runs there. SandboxUnavailable where that fails."""
        if self._program is None:
            raise SandboxUnavailable(
                "the sandbox needs bwrap, which is not on PATH",
                remedy="install the package bubblewrap, or choose --sandbox local, which holds nothing back",
            )
        scratch = self._workspace.scratch
        scratch.chmod(0o700)
        prepare_home(scratch / "home", layout.inside_path())
        for name in ("init.py", "enter.py"):
            text = importlib.resources.files(__package__ or "").joinpath(name).read_text(encoding="utf-8")
            (scratch / name).write_text(text, encoding="utf-8")
        self._limits = make_limits(self._spec)
        try:
            with tempfile.TemporaryFile() as log:
                self._spawn(log)
                self._wait_until_ready(log)
        except BaseException:
            self.close()
            raise

    def _spawn(self, log: IO[bytes]) -> None:
        assert self._program is not None
        with contextlib.ExitStack() as stack:
            listener = stack.enter_context(listen(self._workspace.scratch))
            owner = self._watch_owner(stack)
            join = [os.open(file, os.O_WRONLY | os.O_CLOEXEC) for file in self._limits.join]
            for fd in join:
                stack.callback(os.close, fd)
            rlimits = settable(self._limits.rlimits)
            config = {"listener": listener.fileno(), "owner": owner, "join": join, "rlimits": rlimits}
            inside = layout.layout(self._spec, self._workspace, self._control, self._env, self._program)
            self._bwrap = subprocess.Popen(
                [self._program, *inside, layout.init_python(), "-I", "-S", layout.INIT, json.dumps(config)],
                env=dict(self._env),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                pass_fds=(listener.fileno(), owner, *join),
                start_new_session=True,
            )

    def _wait_until_ready(self, log: IO[bytes]) -> None:
        assert self._bwrap is not None
        try:
            self.exec(["true"], timeout=10)
            self._init = procs.descendants(self._bwrap.pid, procs.table())[0]
        except (SandboxError, IndexError) as error:
            with contextlib.suppress(subprocess.TimeoutExpired):  # what it says comes before its end
                self._bwrap.wait(1)
            log.seek(0)
            said = log.read().decode(errors="replace").strip().splitlines()
            raise SandboxUnavailable(
                f"the bubblewrap sandbox can't be set up from kernel namespaces: {said[-1] if said else error}",
                remedy=REMEDY,
            ) from error

    def close(self) -> None:
        with self._closing:
            bwrap, self._bwrap = self._bwrap, None
            if bwrap is not None:
                roots = [self._init] if self._init else procs.descendants(bwrap.pid, procs.table())
                # The kernel ends all others with the first process inside, and it is gone only when they are.
                procs.kill_all(lambda: [entry for entry in roots if procs.same(entry)], seconds=END_SECONDS)
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

    def _inside(self) -> list[procs.Entry]:
        if self._init is None or not procs.same(self._init):
            return []
        return procs.descendants(self._init.pid, procs.table())

    def _watch_owner(self, stack: contextlib.ExitStack) -> int:
        """A descriptor that becomes readable when this process has ended."""
        try:
            fd = os.pidfd_open(os.getpid())
        except OSError:  # a kernel before 5.3: a pipe that we alone hold open
            fd, self._lifeline = os.pipe()
        stack.callback(os.close, fd)
        return fd
