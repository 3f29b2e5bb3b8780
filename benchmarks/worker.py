"""A warm parent for many attempts: `python -m agentctl.benchmarks.worker`.

Specs come in on standard input, one JSON document a line; each is run in a process of its own, forked from this one,
so that modules are loaded once. A line goes out as each ends: `{"record": ..., "exit": 0}`. Children hold the reading
end of a pipe whose writing end only this process has: when it is gone, however that happened, each attempt ends itself,
with its record whole and its sandbox closed. When standard input closes, running attempts are waited for.
"""

from __future__ import annotations

import json
import os
import selectors
import sys
import threading
import traceback

from agentctl.agents.spec import AttemptSpec
from agentctl.base.cancel import Cancel
from agentctl.base.errors import AgentctlError

from .runner import run

_GRACE = 20.0  # seconds an attempt has to end in order after its owner is gone


def watch_owner(pipe: int, cancel: Cancel) -> None:
    """Ask for the stop when the owner's pipe closes; end the process at once if that takes too long."""

    def watch() -> None:
        os.read(pipe, 1)
        cancel.set("its owner is gone")
        timer = threading.Timer(_GRACE, os._exit, (1,))
        timer.daemon = True
        timer.start()

    threading.Thread(target=watch, daemon=True).start()


def attempt(line: str, pipe: int) -> int:
    """Run the attempt whose spec is `line`. Returns an exit status."""
    cancel = Cancel()
    watch_owner(pipe, cancel)
    try:
        outcome = run(AttemptSpec.model_validate_json(line), cancel=cancel, environment=os.environ)
    except AgentctlError as error:
        print(f"agentctl: {error}", file=sys.stderr)
        return error.exit_status
    except Exception:
        traceback.print_exc()
        return 1
    return 1 if outcome.result.infrastructure else 0


def serve() -> None:
    """Read specs, fork, report, until standard input is closed and every attempt has ended."""
    owner_reads, owner_writes = os.pipe()
    children: dict[int, tuple[int, str]] = {}  # a child's pidfd, to its number and its record
    selector = selectors.DefaultSelector()
    selector.register(sys.stdin.fileno(), selectors.EVENT_READ)
    buffer = b""
    reading = True
    while reading or children:
        for key, _ in selector.select():
            if key.fd in children:
                pid, record = children.pop(key.fd)
                selector.unregister(key.fd)
                os.close(key.fd)
                status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                print(json.dumps({"record": record, "exit": status}), flush=True)
                continue
            data = os.read(key.fd, 1 << 20)
            if not data:
                selector.unregister(key.fd)
                reading = False
            *lines, buffer = (buffer + data).split(b"\n")
            for line in filter(None, lines):
                pid = _forked(line.decode("utf-8"), owner_reads, owner_writes)
                pidfd = os.pidfd_open(pid)
                children[pidfd] = pid, str(json.loads(line)["record"])
                selector.register(pidfd, selectors.EVENT_READ)


def _forked(line: str, owner_reads: int, owner_writes: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        os.close(owner_writes)
        sys.stdin.close()
        status = attempt(line, owner_reads)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    serve()
