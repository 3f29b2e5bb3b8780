"""`agentctl score`: score a record's deliverable again, by the scorers of today."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from agentctl.agents.manifest import deliverable_change, read_manifest, read_result
from agentctl.base.errors import AgentctlError, InputError
from agentctl.benchmarks.runner import write_scores
from agentctl.benchmarks.tasks import load_task

from .live import terminal
from .outcome import score_lines


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("record", type=click.Path(path_type=Path))
@click.option("--json", "json_out", is_flag=True, help="One JSON document on standard output.")
def command(record: Path, json_out: bool) -> None:
    """Score what RECORD holds, and write its scores/ anew. The attempt itself is not touched.

    A deliverable that is not the one that the run left is scored for you to see, as what it is: scores/ stays as it
    was, and the exit status is 1.
    """
    manifest = read_manifest(record)
    result = read_result(record)
    if result is None:
        raise InputError("this attempt has no result yet", file=record, remedy=f"agentctl solve --resume {record}")
    if result.infrastructure:
        raise InputError(
            f"ended by {result.end}, which was not the agent's doing: there is nothing to score",
            file=record,
            remedy=f"agentctl solve --resume {record}",
        )
    task = load_task(manifest.spec.task)
    deliverable = record / result.deliverable if result.deliverable else None
    change = deliverable_change(record, result)
    if change is None:
        scores = write_scores(record, task, deliverable)
    else:
        scores = task.score(deliverable if deliverable and deliverable.is_file() else None)
    if json_out:
        told = {
            "record": str(record),
            "deliverable_change": change,
            "written": change is None,
            "scores": [score.model_dump(mode="json") for score in scores],
        }
        click.echo(json.dumps(told, ensure_ascii=False, indent=1))
    else:
        if change is not None:
            click.echo("Not the score of the run: what it left was changed.")
        provenance = result.provenance if change is None else ()
        for score in scores:
            click.echo("\n".join(score_lines(score, provenance, width=terminal(sys.stdout)[0])))
    if change is not None:
        raise AgentctlError(change, file=record, remedy="nothing was written; scores/ holds the score of the run")
