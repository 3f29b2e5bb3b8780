"""What a step costs: `python -m agentctl.benchmarks.perf.overhead [--steps 10,50,200] [--repeat 3]`.

Four clients on a loopback model server without a delay, side by side in one run: a bare loop, bare litellm, agentctl's
direct client, agentctl through litellm. Prints medians over the repeats, and ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .server import ModelServer

COMMAND = "printf '%055d\\n' {1..20}"  # a builtin, as starting a program would outweigh the rest; 1,100 bytes of output
DRIVERS = ("bare", "bare-litellm", "direct", "litellm")


@dataclass(frozen=True)
class Run:
    """One client's run. Gaps in ms, CPU in s."""

    gap: float
    first: float  # median of the first 20 gaps
    last: float  # median of the last 20
    cpu_at_first: float
    peak_mb: float
    written: int  # bytes of the record
    unique: int  # bytes of all messages once


def measure(driver: str, steps: int) -> Run:
    """Run one client through `steps` steps."""
    server = ModelServer(steps, COMMAND)
    environment = {**os.environ, "OPENAI_API_KEY": "none-needed", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # else each start compiles our modules anew, as no user's does
    with tempfile.TemporaryDirectory(prefix="agentctl-perf-") as folder:
        command = [sys.executable, "-m", "agentctl.benchmarks.perf.drivers", driver, server.url, str(steps), folder]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, cwd=folder)
        server.client_pid = process.pid
        told, _ = process.communicate()
        server.close()
        if process.returncode or len(server.timings.requests) != steps + 1:
            raise SystemExit(f"{driver} made {len(server.timings.requests)} requests of {steps + 1}")
        written = _written(Path(folder))
    figures = json.loads(told.splitlines()[-1])
    gaps = [1000 * gap for gap in server.timings.gaps]
    edge = min(20, len(gaps))
    return Run(
        gap=statistics.median(gaps),
        first=statistics.median(gaps[:edge]),
        last=statistics.median(gaps[-edge:]),
        cpu_at_first=server.timings.cpu_at_first or 0.0,
        peak_mb=figures["peak_mb"],
        written=written,
        unique=server.timings.prompt_bytes[-1],
    )


def _written(folder: Path) -> int:
    record = folder / "record"
    return sum(path.stat().st_size for path in record.rglob("*") if path.is_file()) if record.exists() else 0


def middle(runs: Sequence[Run]) -> Run:
    """The median of each figure."""
    return Run(**{name: statistics.median(getattr(run, name) for run in runs) for name in Run.__annotations__})


def table(steps: int, runs: dict[str, Run]) -> list[str]:
    lines = [
        f"{steps} steps",
        f"  {'':<20}{'gap ms':>8}{'first 20':>10}{'last 20':>9}{'last/first':>12}{'CPU s at 1st':>14}{'peak MB':>9}"
        f"{'record KB':>11}{'/ unique':>10}",
    ]
    for name, run in runs.items():
        share = f"{run.written / run.unique:>9.2f}x" if run.written else f"{'-':>10}"
        lines.append(
            f"  {name:<20}{run.gap:>8.2f}{run.first:>10.2f}{run.last:>9.2f}{run.last / run.first:>11.2f}x"
            f"{run.cpu_at_first:>14.2f}{run.peak_mb:>9.0f}{run.written / 1024:>11.0f}{share}"
        )
    for ours, theirs in (("direct", "bare"), ("litellm", "bare-litellm")):
        for way in ("", "-stream"):
            if {f"{ours}{way}", f"{theirs}{way}"} <= set(runs):
                ratio = runs[f"{ours}{way}"].gap / runs[f"{theirs}{way}"].gap
                lines.append(f"  {f'{ours}{way} / {theirs}{way}':<40}{ratio:.2f}x")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", default="10,50,200", help="numbers of steps, with commas between")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--drivers", default=",".join(DRIVERS), help="-stream behind a name: replies are streamed")
    given = parser.parse_args()
    for steps in (int(each) for each in given.steps.split(",")):
        runs: dict[str, list[Run]] = {name: [] for name in given.drivers.split(",")}
        for _ in range(given.repeat):
            for name, found in runs.items():  # in turn, so that a busy moment hits all of them
                found.append(measure(name, steps))
        print("\n".join(table(steps, {name: middle(found) for name, found in runs.items()})), flush=True)


if __name__ == "__main__":
    main()
