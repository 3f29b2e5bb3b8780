"""For tests: whole attempts at the example capsule, with a provider on this machine that keeps books of its own."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import IO, Any

from loopback import Answer, Loopback, Received, Step, completion

from agentctl.agents.manifest import read_result
from agentctl.agents.models.protocol import ModelSpec
from agentctl.agents.reading import RecordReader
from agentctl.agents.scaffold import load_scaffold
from agentctl.agents.spec import AttemptSpec, Limits, Prices
from agentctl.benchmarks.corebench.locate import locate

CAPSULE = "capsule-4810297"
ANSWERS = {
    "Report the upper end of the 95 % bootstrap interval of the slope within species, in g/mm.": 46.45062093127509,
    "Report how many birds are given the wrong species when bill depth is left out.": 13,
    "fig Report the measurement that can be left out with the fewest birds given the wrong species, as it is labelled "
    "in Figure 2.": "flipper length",
}
INSTALL = "python3 -m pip install -q --no-index --find-links /code/vendor -r /code/requirements.txt"
PRICE_IN, PRICE_OUT = Decimal("0.000010"), Decimal("0.000030")  # dollars a token
PRICE_LINE = "loop=10,30"

Turn = tuple[str, dict[str, Any]]  # a tool, and its arguments


def bash(command: str) -> Turn:
    return "bash", {"command": command}


def report(answers: Mapping[str, object] = ANSWERS) -> Turn:
    return "write_file", {"path": "/workspace/report.json", "content": json.dumps(answers)}


FINISH: Turn = "finish", {"summary": "All three are answered."}


def solving(mark: str, *, looks: int = 10) -> list[Turn]:
    """What solves the capsule at level hard in `looks` + 5 steps. Some leave `sleep MARK` running, out of reach."""
    daemon = f"setsid sleep {mark} >/dev/null 2>&1 </dev/null & disown"
    looking = [
        bash(f"ls /code /data; head -{n + 2} /data/penguins.csv; {daemon if n % 3 == 0 else 'sleep 0.05'}")
        for n in range(looks)
    ]
    half = looks // 2
    return [
        *looking[:half],
        bash(INSTALL),
        bash("cd /code && python3 analyse.py"),
        *looking[half:],
        bash("cat /results/*.csv"),
        report(),
        FINISH,
    ]


class Provider(Loopback):
    """Answers by how far the conversation is, so that whoever goes on with it gets the turn that is due.

    Each request that came in whole is billed, whether or not its answer arrived: `billed` are its own books. `plain`:
    calls are written into the reply's text.
    """

    def __init__(self, turns: Sequence[Turn], *, delay: float = 0.0, seed: int = 0, plain: bool = False) -> None:
        super().__init__()
        self._turns = turns
        self._plain = plain
        self._delay = delay
        self._rng = random.Random(seed)
        self.billed = Decimal(0)

    def _take(self, received: Received) -> Step:
        done = sum(message["role"] == "assistant" for message in received.tree["messages"])
        usage = {"prompt_tokens": len(received.body) // 4, "completion_tokens": 40}
        with self._lock:
            self.received.append(received)
            self.billed += usage["prompt_tokens"] * PRICE_IN + usage["completion_tokens"] * PRICE_OUT
        usage["total_tokens"] = sum(usage.values())
        name, arguments = turn = self._turns[done]
        text = f"Step {done + 1}."
        if self._plain:
            text += f"\n```json\n{json.dumps({'name': name, 'arguments': arguments}, ensure_ascii=False)}\n```"
        answer = completion(text, calls=[] if self._plain else [turn], usage=usage)
        return Answer(body=answer.body, delay=self._delay * self._rng.random())


def spec(record: Path, url: str, *, cap: str = "4", level: str = "hard", output_limit: int = 16_384) -> AttemptSpec:
    return AttemptSpec(
        task=locate(CAPSULE, level).ref,
        scaffold=load_scaffold("plain"),
        model=ModelSpec(name="loop", api_base=url, output_limit=output_limit),
        limits=Limits(cost_usd=Decimal(cap)),
        prices=Prices(lines=(PRICE_LINE,)),
        record=record,
    )


class Worker:
    """The worker as a process. What it tells comes out of `told`."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "agentctl.benchmarks.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
        )
        assert self.process.stdin and self.process.stdout and self.process.stderr
        self.stdin: IO[bytes] = self.process.stdin
        self.stdout: IO[bytes] = self.process.stdout
        self.stderr: IO[bytes] = self.process.stderr

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.stdin, self.stdout, self.stderr):
            pipe.close()

    def start(self, attempt: AttemptSpec) -> int:
        """Start an attempt. Returns the number of its process."""
        before = set(self.children())
        self.stdin.write(attempt.model_dump_json().encode() + b"\n")
        self.stdin.flush()

        def look() -> int | None:
            assert self.process.poll() is None, self.stderr.read()
            return next(iter(set(self.children()) - before), None)

        return int(wait_for(look, seconds=30))

    def told(self) -> dict[str, Any]:
        """The next line that it tells."""
        line = json.loads(self.stdout.readline())
        assert isinstance(line, dict)
        return line

    def children(self) -> list[int]:
        text = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text(encoding="utf-8")
        return [int(number) for number in text.split()]


def agentctl(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the command line. Options as of subprocess.run; a variable of `env` adds to the environment."""
    env = {**os.environ, **options.pop("env", {})}
    return subprocess.run(
        [sys.executable, "-m", "agentctl", *map(str, arguments)],
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=options.pop("timeout", 120),
        **options,
    )


def wait_for(look: Any, *, seconds: float) -> Any:
    """What `look` gives once it is something; fails when the time is over first."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, f"waited {seconds} s in vain"
        time.sleep(0.01)
    return found


def running_with(words: Sequence[str]) -> list[str]:
    """Command lines of processes that name any of `words`, in their arguments or their environment."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            arguments = (folder / "cmdline").read_bytes()
            told = arguments + (folder / "environ").read_bytes()
            if any(word.encode() in told for word in words):
                found.append(arguments.replace(b"\0", b" ").decode(errors="replace"))
    return found


def kill(pid: int) -> None:
    """SIGKILL; 0 and a process that is gone are passed over."""
    if pid == 0:
        return
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def check_books(record: Path, provider: Provider, cap: Decimal = Decimal(4)) -> None:
    """What the record says was spent is what the provider billed, or over by the bound of the send that was open."""
    reader = RecordReader(record)
    books = reader.books()
    assert books.spent <= provider.billed <= books.spent + books.uncertain, (books, provider.billed)
    assert books.spent + books.uncertain <= cap
    if books.uncertain:
        carried = [event.uncertain for event in reader.events if event.t == "carried"]
        own = books.uncertain - sum(carried, Decimal(0))
        assert own <= max((sent.bound for sent in reader.requests.values()), default=Decimal(0))


def check_solved(record: Path) -> None:
    result = read_result(record)
    assert result is not None
    assert (result.end, result.infrastructure) == ("finished", False), result.detail
    if not (record / "scores" / "corebench.json").exists():  # killed between its result and its score
        assert agentctl("score", record).returncode == 0
    score = json.loads((record / "scores" / "corebench.json").read_text(encoding="utf-8"))
    assert score["solved"] is True, score
