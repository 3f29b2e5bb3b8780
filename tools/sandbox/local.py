"""No sandbox: plain processes of the host, in the workspace's own folders. Only where it is asked for by name.

It keeps the host's secrets out of the environment, bounds the memory and files of each process, and at the end kills
what still carries its label, daemons included. Nothing keeps a command from the host's files, from its network, or from
dropping the label: `holds` says so.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from itertools import count

from . import procs
from .common import EXEC_LABEL, HostFolders
from .environment import PROXIES, SYSTEM_PATH, command_environment, inherited, prepare_home
from .label import VARIABLE, new_label
from .limits import file_limits, memory_of_each, settable
from .protocol import ExecResult, Guarantee, Launch, Mount, SandboxError, SandboxSpec, SandboxUnavailable, Workspace
from .running import Pipes, Running, finish, unrunnable

# By a shell: code of ours between fork and exec is not safe where the owner has threads.
WITH_LIMITS = 'cd "$0" || exit 126; ulimit -f {blocks} && ulimit -d {kilobytes} && ulimit -c 0 && exec "$@"'


class LocalSandbox(HostFolders):
    """See `protocol.Sandbox`. Paths inside are paths of the host."""

    def __init__(self, spec: SandboxSpec, workspace: Workspace, owner_env: Mapping[str, str]) -> None:
        if spec.network != "open" or spec.allow_hosts:
            raise SandboxUnavailable(
                "the local sandbox can hold no network policy: its commands have the host's network",
                remedy="choose the policy open with it, or the sandbox bubblewrap",
            )
        for mount in workspace.mounts:
            if mount.inside != str(mount.host):
                raise SandboxUnavailable(
                    f"the local sandbox can't show {mount.host} at {mount.inside}",
                    remedy="lay the workspace out at its own paths, or use the sandbox bubblewrap",
                )
        home = workspace.scratch / "home"
        prepare_home(home)
        temporary = workspace.scratch / "tmp"
        temporary.mkdir(parents=True, exist_ok=True)
        self._label = new_label()
        user = owner_env.get("USER", "agent")
        path = tuple(owner_env.get("PATH", ":".join(SYSTEM_PATH)).split(":"))
        proxies = inherited(owner_env, PROXIES)
        env = command_environment(owner_env, home=str(home), user=user, path=path, proxies=proxies)
        env |= {VARIABLE: self._label, "TMPDIR": str(temporary)}
        control = workspace.scratch / "control"
        super().__init__(spec, workspace, Mount(inside=str(control), host=control), env)
        self._numbers = count(1)
        self._closed = False

    @property
    def holds(self) -> frozenset[Guarantee]:
        return frozenset({Guarantee.MEMORY_LIMIT})

    @property
    def _python(self) -> Sequence[str]:
        return (sys.executable,)

    def _limited(self, argv: Sequence[str], cwd: str | None) -> list[str]:
        limits = settable(file_limits(self._spec) | memory_of_each(self._spec))
        blocks, kilobytes = limits["RLIMIT_FSIZE"] // 512, limits["RLIMIT_DATA"] // 1024
        command = WITH_LIMITS.format(blocks=blocks, kilobytes=kilobytes)
        return ["/bin/sh", "-c", command, cwd or self._workspace.start, *argv]

    def exec(
        self, argv: Sequence[str], *, timeout: float, stdin: bytes = b"", limit: int = 1 << 20, cwd: str | None = None
    ) -> ExecResult:
        if self._closed:
            raise SandboxError("the sandbox has ended")
        if refusal := unrunnable(argv):
            return refusal
        number = str(next(self._numbers))
        with Pipes(stdin) as pipes, contextlib.ExitStack() as stack:
            their_in, their_out, their_err = pipes.theirs
            try:
                process = subprocess.Popen(
                    self._limited(argv, cwd),
                    env={**self._env, EXEC_LABEL: number},
                    stdin=their_in,
                    stdout=their_out,
                    stderr=their_err,
                    start_new_session=True,
                )
            except OSError as error:
                raise SandboxError(f"{argv[0]} can't be started: {error}") from error
            root = procs.read_entry(process.pid)
            running = Running(
                *pipes.started(),
                wake=_exit_event(process.pid, stack),
                poll=lambda: _exit_code(process),
                kill=lambda: self._end(process, root, f"{EXEC_LABEL}={number}"),
            )
            return finish(running, timeout=timeout, stdin=stdin, limit=limit)

    def _end(self, process: subprocess.Popen[bytes], root: procs.Entry | None, label: str) -> None:
        self._kill_command(root, label)
        process.wait()

    def launch(self, argv: Sequence[str], *, cwd: str | None = None) -> Launch:
        return Launch(argv=tuple(self._limited(argv, cwd)), env=dict(self._env))

    def _inside(self) -> list[procs.Entry]:
        return procs.labelled(f"{VARIABLE}={self._label}", procs.table().values())

    def close(self) -> None:
        self._closed = True
        procs.kill_all(self.processes)


def _exit_code(process: subprocess.Popen[bytes]) -> int | None:
    code = process.poll()
    return code if code is None or code >= 0 else 128 - code


def _exit_event(pid: int, stack: contextlib.ExitStack) -> int | None:
    try:
        fd = os.pidfd_open(pid)
    except OSError:  # a kernel before 5.3
        return None
    stack.callback(os.close, fd)
    return fd
