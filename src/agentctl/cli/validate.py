"""`agentctl validate`: a report.json, checked as an agent's is before it may finish."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import click

from agentctl.base.deliverable import Severity
from agentctl.base.errors import InputError
from agentctl.base.jsonio import read_json
from agentctl.benchmarks.config import read_config
from agentctl.benchmarks.corebench.locate import find
from agentctl.tools.report_check import validate_file

from .live import terminal
from .words import count, folded


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("report", type=click.Path(path_type=Path))
@click.option("--task", help="A capsule's id, or the beginning of one: its questions are asked.")
@click.option("--dataset", metavar="NAME|FILE", help="A dataset's name, or its file.")
@click.option("--questions", type=click.Path(path_type=Path), help="A JSON list of questions instead.")
@click.option("--json", "json_out", is_flag=True, help="One JSON document on standard output.")
def command(report: Path, task: str | None, dataset: str | None, questions: Path | None, json_out: bool) -> None:
    """Check REPORT: strict JSON, exactly the questions as keys, bare answers. Nothing is changed.

    Exit status 0 when it can be accepted (warnings are told), 1 when not.
    """
    if not report.exists():
        raise InputError("no such report", file=report)
    check = validate_file(report, _questions(task, dataset, questions))
    if json_out:
        click.echo(json.dumps(check.model_dump(mode="json"), ensure_ascii=False, indent=1))
    else:
        width = terminal(sys.stdout)[0]
        for finding in check.findings:
            where = f"{finding.where}: " if finding.where else ""
            hint = f" (did you mean {finding.suggestion!r}?)" if finding.suggestion else ""
            click.echo("\n".join(folded(f"{finding.severity}: {where}{finding.message}{hint}", width)))
        warnings = sum(finding.severity is Severity.WARNING for finding in check.findings)
        errors = len(check.findings) - warnings
        click.echo(
            f"{report}: {'valid' if check.valid else 'not valid'}, "
            f"{count(errors, 'error')}, {count(warnings, 'warning')}"
        )
    sys.exit(0 if check.valid else 1)


def _questions(task: str | None, dataset: str | None, questions: Path | None) -> list[str]:
    if (task is None) == (questions is None):
        raise click.UsageError("give --task or --questions, one of them")
    if questions is not None:
        asked = read_json(questions, what="questions file")
        if not isinstance(asked, list) or not asked or not all(isinstance(each, str) for each in asked):
            raise InputError("must be a JSON list of texts, not empty", file=questions)
        return [str(each) for each in asked]
    from agentctl.benchmarks.corebench.store.place import Store

    assert task is not None
    default = read_config(environment=os.environ).settings.data.dataset
    found = find(task, dataset or default, Store.of(os.environ), or_shipped=dataset is None)
    return list(found.entry.questions)
