"""`agentctl score`: score a record's deliverable again, by the scorers of today."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from agentctl.agents.manifest import read_manifest, read_result
from agentctl.base.errors import InputError
from agentctl.benchmarks.runner import write_scores
from agentctl.benchmarks.tasks import load_task

from .live import terminal
from .outcome import score_lines


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("record", type=click.Path(path_type=Path))
@click.option("--json", "json_out", is_flag=True, help="One JSON document on standard output.")
def command(record: Path, json_out: bool) -> None:
    """Score what RECORD holds, and write its scores/ anew. The attempt itself is not touched."""
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
    deliverable = record / result.deliverable if result.deliverable else None
    scores = write_scores(record, load_task(manifest.spec.task), deliverable)
    if json_out:
        click.echo(json.dumps([score.model_dump(mode="json") for score in scores], ensure_ascii=False, indent=1))
        return
    for score in scores:
        click.echo("\n".join(score_lines(score, result.provenance, width=terminal(sys.stdout)[0])))
