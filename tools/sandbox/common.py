"""What all kinds of sandbox share: files through the mounts, and processes by the host's table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

from . import procs
from .environment_lock import environment_lock
from .files import Files
from .network.refusals import Refusals
from .protocol import (
    EnvironmentLock,
    ExecResult,
    FileInfo,
    Fingerprint,
    Mount,
    Process,
    Refusal,
    SandboxError,
    SandboxSpec,
    Workspace,
)
from .system import fingerprint

EXEC_LABEL = "AGENTCTL_EXEC"  # tells what one command started, daemons included, should it have to be killed


class HostFolders(ABC):
    """The part of `protocol.Sandbox` that works on folders and processes of this host. A kind adds the rest."""

    def __init__(self, spec: SandboxSpec, workspace: Workspace, control: Mount, env: Mapping[str, str]) -> None:
        self._spec = spec
        self._workspace = workspace
        self._control = control
        self._env = env
        self._refusals = Refusals()
        self._files = Files((*workspace.mounts, control), workspace.start)
        control.host.mkdir(parents=True, exist_ok=True)

    @property
    def spec(self) -> SandboxSpec:
        return self._spec

    @property
    def workspace(self) -> Workspace:
        return self._workspace

    @property
    def control(self) -> Mount:
        return self._control

    @property
    def env(self) -> Mapping[str, str]:
        return self._env

    @property
    def system_writable(self) -> bool:
        return False

    def fingerprint(self) -> Fingerprint:
        return fingerprint(self._spec)

    @property
    @abstractmethod
    def _python(self) -> Sequence[str]:
        """How a Python is called inside."""

    def environment(self) -> EnvironmentLock:
        folders = [mount.inside for mount in self._workspace.mounts] + [self._env["HOME"], "/opt"]
        return environment_lock(
            lambda argv, seconds, limit: self.exec(argv, timeout=seconds, limit=limit),
            self._python,
            folders,
            self._spec.rootfs,
        )

    def on_refusal(self, told: Callable[[Refusal], None] | None) -> None:
        self._refusals.listen(told)

    @abstractmethod
    def exec(
        self, argv: Sequence[str], *, timeout: float, stdin: bytes = b"", limit: int = 1 << 20, cwd: str | None = None
    ) -> ExecResult: ...

    def alive(self) -> bool:
        try:
            return self.exec(["true"], timeout=10).exit_code == 0
        except SandboxError:
            return False

    @abstractmethod
    def _inside(self) -> list[procs.Entry]:
        """All processes inside, zombies too, the sandbox's own left out."""

    def processes(self) -> list[Process]:
        return [procs.to_process(entry) for entry in self._inside() if not entry.zombie]

    def halted(self) -> AbstractContextManager[bool]:
        return nullcontext(False)

    def kill(self, processes: Sequence[Process]) -> None:
        for process in processes:
            procs.kill(process.pid, process.started)

    def _kill_command(self, root: procs.Entry | None, label: str) -> None:
        """Kill a command (None where it is gone already) with all that it has started."""

        def find() -> list[Process]:
            found = [*(procs.tree(root) if root else []), *procs.labelled(label, self._inside())]
            return [procs.to_process(entry) for entry in found if not entry.zombie]

        procs.kill_all(find, halted=self.halted)

    def stat(self, path: str) -> FileInfo:
        return self._files.stat(path)

    def read(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        return self._files.read(path, offset=offset, limit=limit)

    def write(self, path: str, data: bytes) -> None:
        self._files.write(path, data)

    def list(self, path: str, *, depth: int = 1, limit: int = 10_000) -> list[FileInfo]:
        return self._files.list(path, depth=depth, limit=limit)
