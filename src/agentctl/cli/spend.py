"""`agentctl spend`: what records came to."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from agentctl.agents.models.protocol import Kind
from agentctl.benchmarks.spend import ClassSum, SpendReport, Sum, spend_of

from .live import terminal
from .words import count, dollars, padded, wrapped

_GROUPS = {
    "role": lambda line: line.role,
    "model": lambda line: line.model,
    "task": lambda line: line.task,
}
_KINDS: dict[Kind, str] = {
    "live": "live",
    "replay": "replay: as it was when recorded; nobody paid it again",
    "script": "script: replies from a file, which cost nothing",
    "human": "human: a person's replies",
}
_COLUMNS = (("calls", 7), ("tokens", 13), ("spent", 12), ("uncertain", 12))


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("records", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RECORD|FOLDER...")
@click.option("--by", type=click.Choice(["role", "model", "class", "task"]), help="[role and model, then class]")
@click.option("--json", "json_out", is_flag=True, help="One JSON document on standard output.")
def command(records: tuple[Path, ...], by: str | None, json_out: bool) -> None:
    """Sum what records came to: those named, and all in the folders named.

    Uncertain is what may have been billed for answers that never arrived. Killed attempts count; what a resumed attempt
    carried over counts once. Exit status 1 when a record could not be read.
    """
    spend = spend_of(records)
    if json_out:
        click.echo(json.dumps(_tree(spend), ensure_ascii=False, indent=1))
    else:
        width = terminal(sys.stdout)[0]
        lines = [line for kind in spend.kinds() for line in _section(spend, kind, by, width)]
        notes = [line for note in _notes(spend) for line in wrapped(note, width - 1, indent="  ")]
        click.echo("\n".join([*lines, *notes]))
    for folder, why in spend.unreadable.items():
        click.echo(f"agentctl: not counted: {why if str(folder) in why else f'{folder}: {why}'}", err=True)
    sys.exit(1 if spend.unreadable else 0)


def _section(spend: SpendReport, kind: Kind, by: str | None, width: int) -> Iterator[str]:
    """The table of one kind."""
    room = width - 1 - sum(size for _, size in _COLUMNS)
    yield padded(_KINDS[kind], width - 1).rstrip()
    total = spend.by(lambda line: "", kind).get("", Sum())
    if by != "class":
        group = _GROUPS[by] if by else (lambda line: f"{line.role} · {_short(line.model)}")
        yield _row("", tuple(name for name, _ in _COLUMNS), room)
        for name, sums in sorted(spend.by(group, kind).items(), key=lambda each: (-each[1].spent, each[0])):
            yield _row(name, _cells(sums), room)
        yield _row("total", _cells(total), room)
    if by in (None, "class") and total.by_class:
        yield _row("", ("", "tokens", "spent", ""), room)
        for name, part in total.by_class.items():
            yield _row(name, ("", f"{part.tokens:,}" if part.tokens else "", _class_spent(part, total), ""), room)
        yield _row("total", ("", f"{total.tokens:,}", _spent(total), ""), room)
    yield ""


def _row(name: str, cells: tuple[str, ...], room: int) -> str:
    values = "".join(f"{cell:>{size}}" for cell, (_, size) in zip(cells, _COLUMNS, strict=True))
    return f"  {padded(_short(name), room - 2)}{values}".rstrip()


def _short(name: str) -> str:
    """A model that is a file, without its folders."""
    scheme, colon, path = name.partition(":")
    return f"{scheme}:{path.rpartition('/')[2]}" if colon and scheme in ("replay", "script") else name


def _cells(sums: Sum) -> tuple[str, ...]:
    return (
        str(sums.calls) if sums.calls else "",
        f"{sums.tokens:,}" if sums.tokens else "",
        _spent(sums),
        dollars(sums.uncertain) if sums.uncertain else "",
    )


def _spent(sums: Sum) -> str:
    """Dollars, or that they are not known, wholly or in part."""
    if not sums.unpriced_calls:
        return dollars(sums.spent)
    return f"≥ {dollars(sums.spent)}" if sums.spent else "unknown"


def _class_spent(part: ClassSum, total: Sum) -> str:
    if part.spent or not total.unpriced_calls:
        return f"{'≥ ' if total.unpriced_calls else ''}{dollars(part.spent)}"
    return "unknown"


def _notes(spend: SpendReport) -> Iterator[str]:
    """What a reader should know of these sums."""
    told = [count(len(spend.records), "record")]
    if cut_off := len(spend.no_result) - len(spend.at_work):
        told.append(f"{cut_off} cut off, without a result")
    if spend.at_work:
        told.append(f"{len(spend.at_work)} still at work")
    if spend.copies:
        told.append(
            f"{count(len(spend.copies), 'further copy').replace('copys', 'copies')} of one of them not counted again"
        )
    yield ", ".join(told)
    sums = sum((line.sum for line in spend.lines), Sum())
    if sums.unpriced_calls:
        yield (
            f"unknown: {count(sums.unpriced_calls, 'call')} with {sums.unpriced_tokens:,} tokens had no known price, "
            "and count as no dollars"
        )
    if sums.estimated_calls:
        yield f"of {count(sums.estimated_calls, 'call')} the provider did not report all tokens: they are estimated"


def _tree(spend: SpendReport) -> dict[str, Any]:
    def sums(group: str, kind: Kind) -> dict[str, Any]:
        return {name: each.model_dump(mode="json") for name, each in spend.by(_GROUPS[group], kind).items()}

    def total(kind: Kind) -> Sum:
        return spend.by(lambda line: "", kind)[""]

    return {
        "kinds": {
            kind: {
                "total": total(kind).model_dump(mode="json"),
                **{f"by_{group}": sums(group, kind) for group in _GROUPS},
            }
            for kind in spend.kinds()
        },
        "records": [str(path) for path in spend.records],
        "no_result": [str(path) for path in spend.no_result],
        "at_work": [str(path) for path in spend.at_work],
        "copies": [str(path) for path in spend.copies],
        "unreadable": {str(path): why for path, why in spend.unreadable.items()},
    }
