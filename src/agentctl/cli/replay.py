"""`agentctl replay`: a record played again, replies from the file, tools for real."""

from __future__ import annotations

import json
import os
import sys
from itertools import count as count_up
from pathlib import Path

import click

from agentctl.agents.manifest import read_manifest
from agentctl.agents.protocols import PROTOCOLS
from agentctl.base.errors import AgentctlError
from agentctl.benchmarks.replay import play_again
from agentctl.benchmarks.trust import Trust

from .live import Live, terminal
from .stopping import cancelled_by_signals
from .words import count, harmless, wrapped


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("record", type=click.Path(path_type=Path))
@click.option("--into", type=click.Path(path_type=Path), help="Folder for the new record. [RECORD.replay]")
@click.option("--sandbox", type=click.Choice(["local"]), help="Let a record of the local sandbox run without one.")
@click.option("--rootfs", type=click.Path(path_type=Path), help="The system that it ran in, if it was a given one.")
@click.option("--trust-code", type=click.Path(path_type=Path), multiple=True, help="A file of tools that it may run.")
@click.option("--json", "json_out", is_flag=True, help="One JSON document on standard output.")
def command(
    record: Path,
    into: Path | None,
    sandbox: str | None,
    rootfs: Path | None,
    trust_code: tuple[Path, ...],
    json_out: bool,
) -> None:
    """Play RECORD again and show every difference.

    It passes, with exit status 0, when each tool gave the same result (times, temporary names and the like apart) and
    each answer that was produced by the run is produced again.
    """
    width, colour = terminal()
    protocol = PROTOCOLS[read_manifest(record).spec.scaffold.protocol]
    header, moving = f"{record} · played again", sys.stderr.isatty()
    with (
        cancelled_by_signals() as cancel,
        Live(sys.stderr, header=header, width=width, colour=colour, protocol=protocol, moving=moving) as live,
    ):
        played = play_again(
            record,
            into or _beside(record),
            listener=live,
            environment=os.environ,
            cancel=cancel,
            trust=Trust(kind=sandbox, rootfs=rootfs, code=trust_code),
        )
    if cancel.is_set():
        raise AgentctlError(f"stopped by {cancel.reason} before it was played to its end", file=record)
    shown, _ = terminal(sys.stdout)
    if json_out:
        tree = {
            "record": str(played.outcome.record),
            "same": not played.differences,
            "differences": [difference.model_dump(mode="json") for difference in played.differences],
        }
        click.echo(json.dumps(tree, ensure_ascii=False, indent=1))
    else:
        for difference in played.differences:
            first, *rest = wrapped(f"{difference.where}: {difference.what}", shown - 3, most=6)
            click.echo("\n".join([f"{click.style('✗', fg='red')} {first}", *(f"  {line}" for line in rest)]))
            for side, text in (("recorded", difference.recorded), ("now", difference.now)):
                for line in text.splitlines():
                    click.echo(f"    {side:<9}{harmless(line)}")
        verdict = f"differs in {count(len(played.differences), 'place')}" if played.differences else "the same"
        click.echo(f"{record}: {verdict} ({count(played.compared, 'tool result')} compared)")
    sys.exit(1 if played.differences else 0)


def _beside(record: Path) -> Path:
    """The first of RECORD.replay, RECORD.replay-2, ... that is not there yet."""
    whole = record.absolute()
    names = (whole.with_name(f"{whole.name}.replay{'' if n == 1 else f'-{n}'}") for n in count_up(1))
    return next(path for path in names if not os.path.lexists(path))
