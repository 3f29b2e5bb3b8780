"""`agentctl solve`: one agent, one task."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from agentctl.agents.ends import End
from agentctl.agents.manifest import read_manifest
from agentctl.agents.protocols import PROTOCOLS
from agentctl.agents.spec import AttemptSpec
from agentctl.base.errors import AgentctlError, InputError
from agentctl.base.paths import resolve
from agentctl.benchmarks.config import Given, read_config
from agentctl.benchmarks.corebench.locate import flaws_of
from agentctl.benchmarks.resume import resumed
from agentctl.benchmarks.runner import Outcome, run
from agentctl.benchmarks.solving import attempt_spec, new_record
from agentctl.benchmarks.trust import Trust

from .live import Live, terminal
from .options import given, setting_options
from .outcome import as_json, as_text
from .person import AtTerminal
from .stopping import cancelled_by_signals
from .words import dollars, harmless

_WITH_RESUME = {
    "--resume",
    "--record",
    "--api-base",
    "--sandbox",
    "--rootfs",
    "--trust-code",
    "--set",
    "--require-correct",
    "--json",
}

_SECTIONS = {"main": "model", "fast": "fast", "vision": "vision"}  # of the settings, by the role of their model


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("task", required=False)
@click.option("--level", type=click.Choice(["easy", "medium", "hard"]), help="What the agent is given. [hard]")
@setting_options()
@click.option("--record", type=click.Path(path_type=Path), help="Folder to make. [runs/TASK-LEVEL-TIME-RANDOM]")
@click.option(
    "--resume",
    type=click.Path(path_type=Path),
    metavar="RECORD",
    help="Go on where a killed attempt stopped. What it ran is run again first; the model is asked only after that.",
)
@click.option(
    "--trust-code", type=click.Path(path_type=Path), multiple=True, help="With --resume: a file of tools it may run."
)
@click.option("--require-correct", is_flag=True, help="Exit 1 unless all is right.")
@click.option("--json", "json_out", is_flag=True, help="One JSON document on standard output.")
def command(
    task: str | None,
    level: str | None,
    set_values: tuple[str, ...],
    record: Path | None,
    resume: Path | None,
    trust_code: tuple[Path, ...],
    require_correct: bool,
    json_out: bool,
    **settings: Any,
) -> None:
    """Run an agent on TASK: a capsule's id, or the beginning of one.

    The shipped example has a recorded run, which is played where no model is given:

        agentctl solve capsule-4810297

    What no flag says is taken from the environment (AGENTCTL_MODEL, AGENTCTL_LIMITS_STEPS, ...), then from
    agentctl.toml. All settings, and where each comes from: agentctl doctor --config
    """
    flags = given(settings, set_values)
    if resume is not None:
        _refuse_new_settings(click.get_current_context(), flags)
        spec = _resumed(resume, record, trust_code, flags)
    elif task is None:
        raise click.UsageError("name a TASK, for example: agentctl solve capsule-4810297")
    else:
        config = read_config(flags, environment=os.environ)
        spec = attempt_spec(config, task, level or "hard", environment=os.environ, record=record)
    _run(spec, require_correct=require_correct, json_out=json_out)


def _run(spec: AttemptSpec, *, require_correct: bool, json_out: bool) -> None:
    width, colour = terminal()
    for flaw in flaws_of(spec.task, os.environ):
        click.echo(harmless(f"{spec.task.id} is known to be flawed: {flaw.reason} ({flaw.source})"), err=True)
    model = spec.model.name
    header = (
        f"{spec.task.id} · {spec.task.level} · {spec.scaffold.label} · "
        + (f"recorded replies ({model.removeprefix('replay:')})" if model.startswith("replay:") else model)
        + (f" at {spec.model.api_base}" if spec.model.api_base else "")
        + "".join(f" · {role}: {name}" for role, name in spec.other_names().items())
        + f" · cap {dollars(spec.limits.cost_usd)} · {spec.sandbox.kind}, network {spec.sandbox.network}"
    )
    person = AtTerminal() if "human" in (model, *spec.other_names().values()) else None
    protocol, moving = PROTOCOLS[spec.scaffold.protocol], sys.stderr.isatty() and person is None
    with (
        cancelled_by_signals() as cancel,
        Live(sys.stderr, header=header, width=width, colour=colour, protocol=protocol, moving=moving) as live,
    ):
        outcome = run(spec, cancel=cancel, listener=live, person=person, environment=os.environ)
    click.echo(as_json(outcome) if json_out else as_text(outcome, width=width))
    result = outcome.result
    if result.infrastructure:
        raise AgentctlError(
            f"ended by {result.end}, which was not the agent's doing{': ' + result.detail if result.detail else ''}",
            file=outcome.record,
            remedy=_what_to_do(spec, outcome),
        )
    if require_correct and not all(score.solved for score in outcome.scores):
        sys.exit(1)


def _what_to_do(spec: AttemptSpec, outcome: Outcome) -> str:
    """After an end that was not the agent's doing. Replies that ran out would run out again."""
    if outcome.result.end is End.PROVIDER and outcome.result.kind == "replay":
        recording = resolve(spec.model.name.removeprefix("replay:"))
        return f"the run went another way than recorded: agentctl replay {recording}"
    return f"go on with: agentctl solve --resume {outcome.record}"


def _refuse_new_settings(context: click.Context, flags: Given) -> None:
    """Beside --resume stand only flags that say nothing of how the attempt is run, and addresses with --set."""
    given_flags = {
        parameter.opts[0]
        for parameter in context.command.params
        if context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
    }
    new = [name for key, name in flags.names.items() if name.startswith("--set") and key[1:] != ("api_base",)]
    if refused := [*sorted(given_flags - _WITH_RESUME), *new]:
        raise InputError(
            "the attempt goes on with what it began with",
            field=refused[0],
            remedy=f"leave it out; beside --resume stand {', '.join(sorted(_WITH_RESUME - {'--resume', '--set'}))}",
        )


def _resumed(resume: Path, record: Path | None, trust_code: tuple[Path, ...], flags: Given) -> AttemptSpec:
    task = read_manifest(resume).spec.task
    return resumed(
        resume,
        record or new_record(read_config(environment=os.environ).settings.records.folder, task.id, task.level),
        addresses={role: flags.values.get((section, "api_base")) for role, section in _SECTIONS.items()},
        trust=Trust(
            kind=flags.values.get(("sandbox", "kind")),
            rootfs=Path(rootfs) if (rootfs := flags.values.get(("sandbox", "rootfs"))) else None,
            code=trust_code,
        ),
    )
