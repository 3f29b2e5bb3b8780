"""Where the answers of the example capsules come from: `python -m agentctl.examples.rerun CAPSULE [--write]`.

Runs the capsule's own `code/run` three times, each in a fresh sandbox without a network, reads the answers off what
each run left, and prints them as a dataset has them. `--write` makes the first run's results the capsule's, and the
three runs' answers those of its entry in `dataset.json`.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from agentctl.benchmarks.corebench.dataset import Level, load_dataset
from agentctl.benchmarks.corebench.staging import stage
from agentctl.tools.sandbox.make import open_sandbox
from agentctl.tools.sandbox.protocol import SandboxSpec

HERE = Path(__file__).parent
DATASET = HERE / "dataset.json"
RUNS = 3
RUN_SECONDS = 600.0

Answer: TypeAlias = float | int | str


def _cell(table: Path, row: str, column: str) -> str:
    """The cell of a CSV file in the row that begins with `row`."""
    with table.open(encoding="utf-8", newline="") as file:
        return next(each[column] for each in csv.DictReader(file) if next(iter(each.values())) == row)


def _penguins(results: Path) -> list[Answer]:
    with (results / "classification.csv").open(encoding="utf-8", newline="") as file:
        errors = {row["left_out"]: int(row["errors"]) for row in csv.DictReader(file)}
    least = min(errors, key=lambda name: errors[name])
    return [float(_cell(results / "slopes.csv", "within species", "high")), errors["bill depth"], least]


def _states(results: Path) -> list[Answer]:
    output = (results / "output").read_text(encoding="utf-8")
    (by_regions,) = re.findall(r"^rms \(-i\) \S+ (\S+)", output, re.MULTILINE)
    drawn = re.findall(r" Tm \((.*)\) Tj", (results / "figures" / "figure2.pdf").read_text(encoding="latin-1"))
    bars = drawn[
        : drawn.index(r"\(b\) with regions")
    ]  # drawn from the shortest to the longest, the panel's title after
    return [
        float(_cell(results / "tables" / "table1.csv", "hs_grad", "high")),
        float(_cell(results / "tables" / "table2.csv", "region", "p")),
        float(by_regions),
        bars[-2],
    ]


def _light(results: Path) -> list[Answer]:
    notebook = json.loads((results / "light.ipynb").read_text(encoding="utf-8"))
    (printed,) = re.findall(r"r = (\d\.\d{4})", json.dumps([cell.get("outputs") for cell in notebook["cells"]]))
    figure = (results / "figure1.svg").read_text(encoding="utf-8")
    drawn = re.findall(r'<path d="M\S+ (\S+)V\S+" .*\n<circle .*\n<text .*>(.*)</text>', figure)
    ends = {name: float(low) for low, name in drawn}  # pixels from the top
    return [
        float(_cell(results / "location.csv", "all", "low")),
        float(_cell(results / "tests.csv", "without the first", "p")),
        float(printed),
        max(ends, key=lambda name: ends[name]),
    ]


# By capsule: its answers, in the order of its questions.
READERS: dict[str, Callable[[Path], list[Answer]]] = {
    "capsule-4810297": _penguins,
    "capsule-2741906": _states,
    "capsule-8035164": _light,
}


def answers(capsule_id: str, results: Path) -> dict[str, Answer]:
    """The answers to the capsule's questions, read off a folder of results."""
    questions = load_dataset(DATASET).find(capsule_id).questions
    return dict(zip(questions, READERS[capsule_id](results), strict=True))


def run_once(capsule_id: str, folder: Path) -> Path:
    """Run the capsule as its `code/run` says, in a sandbox that is laid out below `folder`. Returns its results."""
    staged = stage(capsule_id, HERE / "capsules" / capsule_id, Level.MEDIUM, folder, "bubblewrap", gold=DATASET)
    sandbox = open_sandbox(SandboxSpec(network="none"), staged.workspace, owner_env=dict(os.environ))
    try:
        done = sandbox.exec(["bash", "/code/run"], timeout=RUN_SECONDS)
    finally:
        sandbox.close()
    if done.exit_code != 0:
        raise SystemExit(f"{capsule_id}: {(done.stdout + done.stderr).decode(errors='replace')}")
    return staged.workspace.mounts[0].host / capsule_id / "results"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("capsule", choices=sorted(READERS))
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        results = [run_once(given.capsule, Path(name) / str(number)) for number in range(RUNS)]
        runs = [answers(given.capsule, each) for each in results]
        print(json.dumps(runs, ensure_ascii=False, indent=2))
        if given.write:
            shipped = HERE / "capsules" / given.capsule / "results"
            shutil.rmtree(shipped, ignore_errors=True)
            shutil.copytree(results[0], shipped)
            entries = json.loads(DATASET.read_text(encoding="utf-8"))
            next(entry for entry in entries if entry["capsule_id"] == given.capsule)["results"] = runs
            DATASET.write_text(json.dumps(entries, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
