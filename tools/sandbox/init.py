"""The first process inside a sandbox: starts commands for the owner, reaps what they leave, dies with the owner.

It runs inside, on whatever Python (3.8 or later) is found there, so it uses the standard library alone and imports
none of ours. It is process 1 of its namespace: no signal from inside reaches it, and when it ends the kernel ends all.

Started as `init.py CONFIG`, CONFIG being JSON: `listener` and `owner` are descriptors (a listening socket; a pidfd of
the owner, or a pipe that it holds), `join` descriptors of control groups, `rlimits` limits by name, `label`
for whoever looks from outside. With a network there is `door` too: a connected socket, and the port of the door.

A request is one connection. It begins with one packet that carries four descriptors: a file with the request as JSON
(`argv`, `env`, `cwd`), then stdin, stdout and stderr. Answers are JSON packets: `{"failed": WHY}` where no process
could be started; else `{"started": true}` from the command's own process just before it becomes the command (the kernel
names its number on the owner's side), and at the end `{"exit": CODE}`. The owner closing the connection earlier kills
the command and its process group. A packet HALT without descriptors stops all commands, until its connection is closed.
"""

from __future__ import annotations

import array
import contextlib
import errno
import fcntl
import json
import os
import resource
import select
import signal
import socket
import stat
import sys
import termios
from typing import Any

NOT_DUMPABLE = 4  # PR_SET_DUMPABLE, with 0
KEYCTL = {"x86_64": 250, "aarch64": 219}  # numbers of the system call
JOIN_SESSION_KEYRING = 1
CANNOT_RUN = 126  # as a shell has it
NOT_FOUND = 127
HALT = b"halt"


def protect() -> None:
    """Close our memory and environment to the processes inside, which run as the same user, and leave the owner's keys.

    The kernel keeps keys (of Kerberos, of encrypted folders) in keyrings that children inherit: we begin an empty one.
    """
    try:
        import ctypes
    except ImportError:
        return
    libc = ctypes.CDLL(None)
    libc.prctl(NOT_DUMPABLE, 0, 0, 0, 0)
    if os.uname().machine in KEYCTL:
        libc.syscall(KEYCTL[os.uname().machine], JOIN_SESSION_KEYRING, None)


class Init:
    def __init__(self, config: dict[str, Any]) -> None:
        self.listener = socket.socket(fileno=config["listener"])
        self.owner: int = config["owner"]
        self.join: list[int] = config["join"]
        self.rlimits: dict[str, int] = config["rlimits"]
        for fd in (self.listener.fileno(), self.owner, *self.join):
            os.set_inheritable(fd, False)
        self.connections: dict[int, socket.socket] = {}
        self.commands: dict[int, int] = {}  # connection -> process
        self.halts: set[int] = set()  # connections for which all are stopped
        self.poll = select.poll()

    def serve(self) -> None:
        """Answer requests until the owner is gone."""
        wake, woken = os.pipe()
        os.set_blocking(woken, False)
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for fd in (self.listener.fileno(), self.owner, wake):
            self.poll.register(fd, select.POLLIN)
        while True:
            for fd, _ in self.poll.poll():
                if fd == self.owner:
                    return
                if fd == wake:
                    os.read(wake, 512)
                    self.reap()
                elif fd == self.listener.fileno():
                    self.accept()
                elif fd in self.connections:
                    self.receive(fd)

    def accept(self) -> None:
        with contextlib.suppress(OSError):
            connection, _ = self.listener.accept()
            self.connections[connection.fileno()] = connection
            self.poll.register(connection.fileno(), select.POLLIN)

    def receive(self, fd: int) -> None:
        """Take a request, or the end of one whose owner no longer waits."""
        connection = self.connections[fd]
        descriptors = array.array("i")
        try:
            room = socket.CMSG_SPACE(4 * descriptors.itemsize)
            data, extra, _, _ = connection.recvmsg(16, room, socket.MSG_CMSG_CLOEXEC)
        except OSError:
            data, extra = b"", []
        for level, kind, body in extra:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                descriptors.frombytes(body[: len(body) - len(body) % descriptors.itemsize])
        if data and len(descriptors) == 4 and fd not in self.commands:
            self.start(connection, list(descriptors))
        elif data == HALT:
            self.halts.add(fd)
            self.signal_all(signal.SIGSTOP)
            answer(connection, halted=True)
        else:
            self.forget(fd)
        for received in descriptors:
            os.close(received)

    def start(self, connection: socket.socket, descriptors: list[int]) -> None:
        with os.fdopen(os.dup(descriptors[0]), "rb") as file:
            request = json.loads(file.read())
        try:
            process = os.fork()
        except OSError as error:
            answer(connection, failed=str(error))
            self.forget(connection.fileno())
            return
        if process == 0:
            try:
                self.become(connection, request, descriptors[1:])
            except BaseException as error:
                answer(connection, failed=repr(error))
            os._exit(CANNOT_RUN)
        self.commands[connection.fileno()] = process

    def become(self, connection: socket.socket, request: dict[str, Any], streams: list[int]) -> None:
        """In the new process: turn into the command, or end with a shell's exit code for one that can't be run."""
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores the last two
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        for target, fd in enumerate(streams):
            os.dup2(nothing_inside(fd) if is_nothing(fd) else fd, target)
        if os.isatty(0):
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        # Only now under the limits: we ourselves stay outside, so that a sandbox that is full can still be mended.
        for fd in self.join:
            os.write(fd, b"0")
        for name, value in self.rlimits.items():
            resource.setrlimit(getattr(resource, name), (value, value))
        answer(connection, started=True)
        argv, cwd = request["argv"], request["cwd"]
        try:
            os.chdir(cwd)
        except OSError as error:
            os.write(2, f"{cwd}: {error.strerror}\n".encode(errors="replace"))
            os._exit(CANNOT_RUN)
        try:
            os.execvpe(argv[0], argv, request["env"])
        except OSError as error:
            os.write(2, f"{argv[0]}: {error.strerror}\n".encode(errors="replace"))
            os._exit(NOT_FOUND if error.errno in (errno.ENOENT, errno.ENOTDIR) else CANNOT_RUN)

    def reap(self) -> None:
        owners = {process: fd for fd, process in self.commands.items()}
        while True:
            try:
                process, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if process == 0:
                return
            fd = owners.get(process)
            if fd is not None and fd in self.connections:
                code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
                answer(self.connections[fd], exit=code)
                del self.commands[fd]
                self.forget(fd)

    def signal_all(self, number: int) -> None:
        """Signal everything inside but ourselves. The kernel lets none slip by that is just being started."""
        with contextlib.suppress(ProcessLookupError):  # nothing runs
            os.kill(-1, number)

    def forget(self, fd: int) -> None:
        """Drop a connection. A command that still runs for it is killed, with its process group."""
        if fd in self.halts:
            self.halts.remove(fd)
            if not self.halts:
                self.signal_all(signal.SIGCONT)
        self.poll.unregister(fd)
        self.connections.pop(fd).close()
        process = self.commands.pop(fd, None)
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process, signal.SIGKILL)


def is_nothing(fd: int) -> bool:
    """Whether it is /dev/null."""
    status = os.fstat(fd)
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == os.makedev(1, 3)


def nothing_inside(fd: int) -> int:
    """The same /dev/null as seen inside: through the owner's, its rights could be changed for the whole machine."""
    return os.open(os.devnull, fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE)


def hand_out_door(owner: int, port: int) -> None:
    """Listen where programs inside look for their proxy, and give that socket to the owner, who answers from outside.

    A socket belongs to the network it was made in, whoever holds it: so this is a way out, and the only one.
    """
    with socket.socket(fileno=owner) as channel, socket.create_server(("127.0.0.1", port), backlog=128) as door:
        rights = array.array("i", [door.fileno()])
        channel.sendmsg([b"door"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])


def answer(connection: socket.socket, **message: Any) -> None:
    with contextlib.suppress(OSError):  # the owner no longer waits
        connection.send(json.dumps(message).encode())


def main() -> None:
    protect()
    os.chdir("/")
    config = json.loads(sys.argv[1])
    if "door" in config:
        hand_out_door(*config["door"])
    Init(config).serve()


if __name__ == "__main__":
    main()
