"""The seam between tools and the place where their commands run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from pydantic import Field, model_validator

from agentctl.base.errors import AgentctlError, SetupError
from agentctl.base.values import Frozen


class Guarantee(StrEnum):
    """What a kind of sandbox may hold. What it does not hold it leaves out of `Sandbox.holds`."""

    HOST_FILES_HIDDEN = "host files are unreadable"
    HOST_FILES_SAFE = "host files are unwritable"
    NOTHING_LEFT = "no process is left when it closes"
    DIES_WITH_OWNER = "no process is left when its owner is killed"
    MEMORY_LIMIT = "memory is limited"
    PROCESS_LIMIT = "the number of processes is limited"
    ROOT_PATHS = "/code, /data and /results are at the root"
    NETWORK_POLICY = "the network policy holds"


NetworkPolicy: TypeAlias = Literal["none", "registries", "open"]


class SandboxSpec(Frozen):
    """Which sandbox, and its limits. Part of the attempt key."""

    kind: Literal["bubblewrap", "local"] = "bubblewrap"
    network: NetworkPolicy = "none"  # the kind `local` has the host's, so there it is `open` where nothing is said
    allow_hosts: tuple[str, ...] = ()  # `host[:port]` besides the policy's own, at any address; none under `none`
    memory_mb: int = Field(default=8192, ge=64, le=1 << 24)  # of all processes together where the kind can, else each
    processes: int = Field(default=1024, ge=1)
    file_mb: int = Field(default=20_480, ge=1)  # largest single file
    rootfs: Path | None = None  # folder with a system (from debootstrap, docker export, ...), in place of the host's

    @model_validator(mode="before")
    @classmethod
    def _local_is_open(cls, given: Any) -> Any:
        return {"network": "open", **given} if isinstance(given, dict) and given.get("kind") == "local" else given


class Mount(Frozen):
    """A host folder as the agent sees it."""

    inside: str  # absolute path inside
    host: Path  # existing folder
    writable: bool = True


class Workspace(Frozen):
    """What staging laid out: folders of the host, and where they stand inside.

    `mounts[0]` is the workspace itself: commands start there, and relative paths of the file tools begin there. The
    kind `local` can't place folders: there each `inside` must be the host path.
    """

    mounts: tuple[Mount, ...]
    scratch: Path  # host folder for the sandbox's own needs (home, temporary files, control); not a mount
    material: str | None = None  # inside path of the folder that the task is about, as a capsule; None: `start` itself
    hidden: tuple[Path, ...] = ()  # host files and folders that must not be seen, also where the system shows them

    @property
    def start(self) -> str:
        return self.mounts[0].inside


class ExecResult(Frozen):
    """One finished command. `exit_code` is None when it was killed at its limit; a signal n gives 128 + n."""

    exit_code: int | None
    stdout: bytes
    stderr: bytes
    timed_out: bool = False
    truncated: bool = False  # output past `limit` bytes a stream was read and dropped


class FileKind(StrEnum):
    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    OTHER = "other"  # device, FIFO, socket


class FileInfo(Frozen):
    """One entry of a folder. `path` is as seen inside."""

    path: str
    kind: FileKind
    size: int  # bytes
    blocks: int  # bytes really taken on disk; far below `size` for a sparse file
    modified_ns: int


class Process(Frozen):
    """A process inside, by its number on the host."""

    pid: int
    started: int  # clock ticks since boot, as in /proc/PID/stat: tells a reused number apart


class Launch(Frozen):
    """How to start a long-lived program inside from the host: its argv and its whole environment."""

    argv: tuple[str, ...]
    env: dict[str, str]
    cwd: str | None = None  # host folder to start in, where argv does not set it


class Fingerprint(Frozen):
    """What an attempt's results may depend on. Part of the attempt key."""

    kind: str
    system: str  # digest of the package list, or of the root file system
    apt: bool  # whether packages of the system can be installed inside
    network: str
    memory_mb: int
    processes: int
    cpus: int


class SystemPackages(Frozen):
    """Packages of dpkg, as `name:architecture=version`; and what became of those that were there at the start."""

    packages: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()  # `name:architecture=before -> after`
    removed: tuple[str, ...] = ()


class EnvironmentLock(Frozen):
    """What is installed inside, environments by their folder. Read from files that the agent could change: no proof."""

    schema_version: int = 1
    system: SystemPackages
    python: dict[str, tuple[str, ...]]  # as `pip freeze` lists them, by folder of packages
    conda: dict[str, tuple[str, ...]]  # `name=version=build`
    r: dict[str, tuple[str, ...]]  # `name version`, by library
    incomplete: tuple[str, ...] = ()  # why something may be absent


class Refusal(Frozen):
    """A request that the network policy refused, for the `times`th time. `port` is 0 where none was asked for."""

    host: str
    port: int
    why: str  # names the host
    times: int = 1

    @property
    def words(self) -> str:
        return f"refused: {self.why}{f' ({self.times} times)' if self.times > 1 else ''}"


class SandboxError(AgentctlError):
    """The sandbox itself failed: infrastructure, never the agent's fault."""


class SandboxUnavailable(SetupError):
    """This kind of sandbox can't work on this machine. Found by the self-test, before any model call."""


class PathRefused(Exception):
    """A path that file tools may not touch: outside, a link leading out, not a regular file. Said to the agent."""


class Sandbox(Protocol):
    """A place for commands and files. Made by `agentctl.tools.sandbox.open_sandbox`, closed once.

    Paths are absolute, as seen inside, or relative to `workspace.start`. All file methods resolve inside: a path that
    leaves the mounts, through `..` or a link, raises PathRefused, and so does anything but a regular file or folder.
    """

    @property
    def spec(self) -> SandboxSpec: ...

    @property
    def workspace(self) -> Workspace: ...

    @property
    def holds(self) -> frozenset[Guarantee]: ...

    @property
    def env(self) -> Mapping[str, str]:
        """The environment that commands get: the presets of `environment.py`, and no secret of the host."""
        ...

    @property
    def control(self) -> Mount:
        """A small writable folder outside the workspace, for FIFOs and command files of the harness."""
        ...

    @property
    def system_writable(self) -> bool:
        """Whether the system inside (/usr, /etc, ...) can be changed, on a layer that is thrown away."""
        ...

    def fingerprint(self) -> Fingerprint: ...

    def exec(
        self, argv: Sequence[str], *, timeout: float, stdin: bytes = b"", limit: int = 1 << 20, cwd: str | None = None
    ) -> ExecResult:
        """Run one command to its end. At `timeout` seconds it and its children are killed.

        A program that is not there gives exit code 127, and one that can't be run 126, as in a shell. SandboxError
        where the sandbox can't start anything.
        """
        ...

    def launch(self, argv: Sequence[str], *, cwd: str | None = None) -> Launch:
        """How to start `argv` inside, for a caller that wants its own terminal on it (pexpect)."""
        ...

    def environment(self) -> EnvironmentLock:
        """What is installed inside by now. SandboxError where that can't be told."""
        ...

    def on_refusal(self, told: Callable[[Refusal], None] | None) -> None:
        """Call `told` with each refusal of the network policy, those that nobody has heard of first; None ends that.

        It is called from another thread, and may not raise. Repeats are told of at the 10th, 100th, ... time alone.
        """
        ...

    def processes(self) -> list[Process]:
        """All that run inside now, those that left their session included; not the sandbox's own."""
        ...

    def kill(self, processes: Sequence[Process]) -> None:
        """SIGKILL each that is still the same process."""
        ...

    def halted(self) -> AbstractContextManager[bool]:
        """Within the block no command inside runs, if it gives true. It is to be short: clocks go on."""
        ...

    def alive(self) -> bool:
        """Whether a trivial command can still be run inside."""
        ...

    def stat(self, path: str) -> FileInfo: ...

    def read(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        """Bytes of a regular file, at most `limit` from byte `offset`. FileNotFoundError where there is none.

        PathRefused for more than 256 MiB without a limit: a sparse file may claim any size.
        """
        ...

    def write(self, path: str, data: bytes) -> None:
        """Make or replace a regular file, parents included, keeping an existing file's mode. Whole or not at all."""
        ...

    def list(self, path: str, *, depth: int = 1, limit: int = 10_000) -> list[FileInfo]:
        """Entries below a folder, sorted by path, links not followed, at most `limit`."""
        ...

    def close(self) -> None:
        """End everything inside. Safe to call twice."""
        ...
