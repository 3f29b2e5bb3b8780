"""For tests: the example capsules of R and of a notebook solved by hand, as replies for `--model script:FILE`.

At level hard the mishaps that a capsule has in store are met on the way; `MISHAPS` says how they show.
"""

from __future__ import annotations

import json
from typing import Any

from agentctl.benchmarks.corebench.dataset import Capsule

STATES, LIGHT = "capsule-2741906", "capsule-8035164"

_EXECUTE = "jupyter nbconvert --to notebook --execute --output-dir ../results"
HARD = {
    STATES: (
        "cat code/README.md code/analysis.R",
        "Rscript code/analysis.R",
        "cd code; Rscript analysis.R",
        "mkdir -p ../results/tables ../results/figures; Rscript analysis.R",
        "Rscript analysis.R 4999 | tee ../results/output",
        "cat ../results/tables/*.csv; grep -ao 'Tm (.*) Tj' ../results/figures/figure2.pdf",
    ),
    LIGHT: (
        "cat code/README.md; ls -R",
        f"cd code; {_EXECUTE} --allow-errors light.ipynb",
        "python3 -c 'import plainfig'",
        "python3 -m pip install -q --no-index vendor/*.whl",
        f"{_EXECUTE} --ExecutePreprocessor.kernel_name=python3 light.ipynb",
        "cat ../results/*.csv ../results/figure1.svg; grep 'r = ' ../results/light.ipynb",
    ),
}
MISHAPS = {
    STATES: (
        "cannot open file 'functions.R'",
        "cannot open file '../results/tables/table1.csv'",
        "argument must be coercible to non-negative integer",
    ),
    LIGHT: ("No such kernel named light", "No module named 'plainfig'"),
}
EASY = {
    STATES: "cat results/output results/tables/*.csv; grep -ao 'Tm (.*) Tj' results/figures/figure2.pdf",
    LIGHT: "cat results/*.csv results/figure1.svg; grep 'r = ' results/light.ipynb",
}
# A number that varies is taken from the table that this run made, as by someone who reports their own run.
_REPORT = """python3 - <<'END'
import csv, json
answers, varying = json.loads({answers!r}), {varying!r}
for question in varying:
    with open("/results/tests.csv", newline="") as file:
        answers[question] = [float(row["p"]) for row in csv.DictReader(file)][1]
with open("/workspace/report.json", "w") as file:
    json.dump(answers, file)
END"""


def varying(capsule: Capsule) -> list[str]:
    """The questions whose recorded answers differ from run to run."""
    return [each for each in capsule.questions if len({str(run[each]) for run in capsule.results}) > 1]


def solution(capsule: Capsule, level: str) -> list[dict[str, Any]]:
    """Replies that solve the capsule at `level`."""
    hard = level == "hard"
    commands = HARD[capsule.capsule_id] if hard else (EASY[capsule.capsule_id],)
    report = _REPORT.format(answers=json.dumps(capsule.results[0]), varying=varying(capsule) if hard else [])
    calls = [("bash", {"command": each}) for each in (f"cd {capsule.capsule_id}", *commands, report)]
    calls.append(("finish", {"summary": "All four are answered."}))
    return [{"calls": [{"name": tool, "arguments": arguments}]} for tool, arguments in calls]
