"""`agentctl solve`: one agent, one task."""

from __future__ import annotations

import os
import sys
from decimal import Decimal, InvalidOperation
from pathlib import Path

import click
from click.core import ParameterSource

from agentctl.agents.manifest import read_manifest
from agentctl.agents.scaffold import load_scaffold
from agentctl.agents.spec import AttemptSpec, Limits, Prices
from agentctl.base.errors import AgentctlError, InputError
from agentctl.benchmarks.corebench.locate import locate
from agentctl.benchmarks.resume import resumed
from agentctl.benchmarks.runner import run
from agentctl.benchmarks.solving import default_model, new_record

from .live import Live, terminal
from .outcome import as_json, as_text
from .stopping import cancelled_by_signals
from .words import dollars

_WITH_RESUME = {"--resume", "--record", "--api-base", "--sandbox", "--require-correct", "--json"}


class Dollars(click.ParamType[Decimal]):
    name = "USD"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Decimal:
        try:
            amount = Decimal(str(value).lstrip("$"))
        except InvalidOperation:
            amount = Decimal("NaN")
        if not amount.is_finite() or amount <= 0:
            self.fail(f"{value!r} is no amount of dollars above 0", param, ctx)
        return amount


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("task", required=False)
@click.option("--level", type=click.Choice(["easy", "medium", "hard"]), help="What the agent is given. [hard]")
@click.option("--dataset", type=click.Path(path_type=Path), help="Dataset file with the capsule's entry.")
@click.option("--capsules", type=click.Path(path_type=Path), help="Folder that holds the capsules.")
@click.option("--model", help="openai/..., anthropic/..., replay:RECORD or script:FILE. [AGENTCTL_MODEL]")
@click.option("--api-base", help="An OpenAI-compatible endpoint for the model.")
@click.option("--client", type=click.Choice(["auto", "direct", "litellm"]), default="auto", show_default=True)
@click.option("--temperature", type=float)
@click.option("--effort", help="Reasoning effort, as the provider names it.")
@click.option("--output-limit", type=click.IntRange(min=1), default=16_384, show_default=True, help="Tokens a reply.")
@click.option("--context-window", type=click.IntRange(min=1000), help="Tokens, where the price table does not know.")
@click.option("--scaffold", default="plain", show_default=True, help="A shipped scaffold, or a .yaml file.")
@click.option("--cap", type=Dollars(), default="4", show_default=True, help="Most that the attempt may cost.")
@click.option("--steps", type=click.IntRange(min=1), default=200, show_default=True)
@click.option("--time", "work_time", type=click.FloatRange(min=1), default=7200, show_default=True, help="Seconds.")
@click.option("--price", multiple=True, metavar="NAME=IN,OUT", help="Dollars a million tokens, or NAME=free.")
@click.option("--prices", type=click.Path(path_type=Path), help="A file of prices (JSON or YAML).")
@click.option("--sandbox", type=click.Choice(["bubblewrap", "local"]), default="bubblewrap", show_default=True)
@click.option("--network", type=click.Choice(["none", "open"]), default="none", show_default=True)
@click.option("--memory", type=click.IntRange(min=64), default=8192, show_default=True, help="MB for the sandbox.")
@click.option("--record", type=click.Path(path_type=Path), help="Folder to make. [runs/TASK-LEVEL-TIME]")
@click.option(
    "--resume", type=click.Path(path_type=Path), metavar="RECORD", help="Go on where a killed attempt stopped."
)
@click.option("--require-correct", is_flag=True, help="Exit 1 unless all is right.")
@click.option("--json", "json_out", is_flag=True, help="One JSON document on standard output.")
def command(
    task: str | None,
    level: str | None,
    dataset: Path | None,
    capsules: Path | None,
    model: str | None,
    api_base: str | None,
    client: str,
    temperature: float | None,
    effort: str | None,
    output_limit: int,
    context_window: int | None,
    scaffold: str,
    cap: Decimal,
    steps: int,
    work_time: float,
    price: tuple[str, ...],
    prices: Path | None,
    sandbox: str,
    network: str,
    memory: int,
    record: Path | None,
    resume: Path | None,
    require_correct: bool,
    json_out: bool,
) -> None:
    """Run an agent on TASK: a capsule's id, or the beginning of one.

    The shipped example has a recorded run, which is played where no model is given:

        agentctl solve capsule-4810297
    """
    if resume is not None:
        spec = _resumed(resume, record, click.get_current_context(), api_base=api_base, local=sandbox == "local")
    else:
        if task is None:
            raise click.UsageError("name a TASK, for example: agentctl solve capsule-4810297")
        located = locate(task, level or "hard", dataset=dataset, capsules=capsules)
        spec = AttemptSpec.model_validate(
            {
                "task": located.ref,
                "scaffold": load_scaffold(scaffold),
                "model": {
                    "name": model or default_model(located, os.environ),
                    "api_base": api_base,
                    "client": client,
                    "temperature": temperature,
                    "effort": effort,
                    "output_limit": output_limit,
                    "context_window": context_window,
                },
                "limits": Limits(cost_usd=cap, steps=steps, seconds=work_time),
                "prices": Prices(lines=price, file=prices),
                "sandbox": {"kind": sandbox, "network": network, "memory_mb": memory},
                "record": record or new_record(located.ref.id, located.ref.level),
            }
        )
    _run(spec, require_correct=require_correct, json_out=json_out)


def _run(spec: AttemptSpec, *, require_correct: bool, json_out: bool) -> None:
    width, colour = terminal()
    model = spec.model.name
    header = (
        f"{spec.task.id} · {spec.task.level} · {spec.scaffold.name} · "
        + (f"recorded replies ({model.removeprefix('replay:')})" if model.startswith("replay:") else model)
        + f" · cap {dollars(spec.limits.cost_usd)} · {spec.sandbox.kind}, network {spec.sandbox.network}"
    )
    live = Live(sys.stderr, header=header, width=width, colour=colour)
    with cancelled_by_signals() as cancel:
        outcome = run(spec, cancel=cancel, listener=live, environment=os.environ)
    click.echo(as_json(outcome) if json_out else as_text(outcome, width=width))
    result = outcome.result
    if result.infrastructure:
        raise AgentctlError(
            f"ended by {result.end}, which was not the agent's doing{': ' + result.detail if result.detail else ''}",
            file=outcome.record,
            remedy=f"go on with: agentctl solve --resume {outcome.record}",
        )
    if require_correct and not all(score.solved for score in outcome.scores):
        sys.exit(1)


def _resumed(
    resume: Path, record: Path | None, context: click.Context, *, api_base: str | None, local: bool
) -> AttemptSpec:
    given = {
        parameter.opts[0]
        for parameter in context.command.params
        if context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
    }
    if refused := sorted(given - _WITH_RESUME):
        raise InputError(
            "the attempt goes on with what it began with",
            field=refused[0],
            remedy=f"leave it out; beside --resume stand {', '.join(sorted(_WITH_RESUME - {'--resume'}))}",
        )
    task = read_manifest(resume).spec.task
    return resumed(resume, record or new_record(task.id, task.level), api_base=api_base, local=local)
