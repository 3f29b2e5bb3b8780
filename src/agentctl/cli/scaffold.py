"""`agentctl scaffold`: which scaffolds there are, what they are made of, and one's own."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from agentctl.agents.plugins import brought
from agentctl.agents.scaffold import SCAFFOLD_FILES, Scaffold, load_scaffold, shipped_scaffolds
from agentctl.agents.switching import switch
from agentctl.agents.task import TaskRef
from agentctl.base.errors import InputError
from agentctl.benchmarks.config import Given, read_config
from agentctl.benchmarks.corebench.dataset import Dataset, load_dataset
from agentctl.benchmarks.corebench.locate import examples, locate
from agentctl.benchmarks.corebench.store.library import all_held, file_of, is_name, named
from agentctl.benchmarks.corebench.store.place import Store
from agentctl.benchmarks.previewing import place_here, preview
from agentctl.prompts.compose import Prompt

from .live import terminal
from .scaffold_file import as_file
from .scaffold_text import (
    as_difference,
    as_factors,
    as_markdown,
    as_parts,
    as_prompt,
    differences,
    factor_lines,
    prompt_difference,
    table,
)
from .tool import MARKS
from .words import folded, harmless, padded, wrapped

F = TypeVar("F", bound=Callable[..., Any])

EXAMPLE = "capsule-4810297"
LEVELS = ("easy", "medium", "hard")
_HELP = {"help_option_names": ["-h", "--help"]}
_JSON = click.option("--json", "json_out", is_flag=True, help="One JSON document on standard output.")


def _task_options(command: F) -> F:
    """The flags that say which task's prompt is composed."""
    for option in (
        click.option("--level", type=click.Choice(LEVELS), default="hard", help="Of the task. [hard]"),
        click.option("--dataset", metavar="NAME|FILE", help="A dataset's name, or its file."),
        click.option("--task", default=EXAMPLE, help=f"Whose prompt is shown. [{EXAMPLE}]"),
    ):
        command = option(command)
    return command


def _switch_options(command: F) -> F:
    """The flags that switch factors."""
    for option in (
        click.option("--set", "set_", multiple=True, metavar="NAME=VALUE", help="Set a value: history=condense."),
        click.option("--without", multiple=True, metavar="NAME", help="Switch a factor off."),
        click.option(
            "--with", "with_", multiple=True, metavar="NAME", help="Switch a factor on, or put in a hint's file."
        ),
    ):
        command = option(command)
    return command


@click.group(context_settings=_HELP)
def command() -> None:
    """Scaffolds: list, show, compare, make one's own, check.

    A scaffold is everything around the model: prompt, hints, tools, history, checks. docs/scaffolds.md says more.
    """


@command.command("list", context_settings=_HELP)
@_JSON
def list_(json_out: bool) -> None:
    """List the scaffolds that are here: shipped ones, and those of installed packages, which are named unread."""
    shipped = [load_scaffold(name) for name in shipped_scaffolds()]
    others = [each for each in brought("scaffolds") if each[0] not in shipped_scaffolds()]
    if json_out:
        own = [{"name": each.name, "description": each.description, "digest": each.digest} for each in shipped]
        _print_json([*own, *({"name": name, "package": package} for name, package in others)])
        return
    width = terminal(sys.stdout)[0]
    rows = [(each.name, each.description) for each in shipped]
    for name, told in (*rows, *((name, f"Of the package {package}.") for name, package in others)):
        lines = wrapped(told, width - 19)
        click.echo(
            "\n".join(
                padded(harmless(name) if n == 0 else "", 18) + " " + harmless(line)
                for n, line in enumerate(lines or [""])
            )
        )


@command.command(context_settings=_HELP)
@click.argument("name")
@_task_options
@_switch_options
@_JSON
def show(
    name: str,
    task: str,
    dataset: str | None,
    level: str,
    with_: tuple[str, ...],
    without: tuple[str, ...],
    set_: tuple[str, ...],
    json_out: bool,
) -> None:
    """Show what the scaffold NAME (or a file) is made of, and the prompt that a task would get, whole.

    Each hint in the prompt stands after a line with its id.
    """
    scaffold = switch(load_scaffold(name), with_=with_, without=without, set_=_values(set_))
    ref, prompt = _prompt(scaffold, task, dataset, level)
    lines = factor_lines(scaffold)
    if json_out:
        _print_json(
            {
                "scaffold": scaffold.model_dump(mode="json"),
                "label": scaffold.label,
                "digest": scaffold.digest,
                "factors": [line.model_dump(mode="json") for line in lines],
                "prompt": {"task_id": ref.id, "level": ref.level, "digest": prompt.digest}
                | prompt.model_dump(mode="json"),
            }
        )
        return
    width, colour = terminal(sys.stdout)
    header = f"prompt of {ref.id} at level {ref.level}, digest {prompt.digest[:12]}"
    click.echo(harmless(as_parts(scaffold, lines, width)) + "\n")
    fold = sys.stdout.isatty()  # a program that reads on wants lines as they are
    click.echo(as_prompt(prompt, header=header, width=width, fold=fold, colour=colour), color=colour)


@command.command(context_settings=_HELP)
@click.argument("a")
@click.argument("b", required=False)
@_task_options
@_switch_options
@_JSON
def diff(
    a: str,
    b: str | None,
    task: str,
    dataset: str | None,
    level: str,
    with_: tuple[str, ...],
    without: tuple[str, ...],
    set_: tuple[str, ...],
    json_out: bool,
) -> None:
    """Show how the scaffold B differs from A, in its parts and in the prompt of a task.

    Switches are B's. Without B they are those of another A: agentctl scaffold diff core-agent --without role
    """
    if b is None and not (with_ or without or set_):
        raise click.UsageError("name a second scaffold, or what is switched in it")
    one, other = load_scaffold(a), switch(load_scaffold(b or a), with_=with_, without=without, set_=_values(set_))
    fields = differences(one, other)
    prompts = [_prompt(each, task, dataset, level)[1] for each in (one, other)]
    lines = prompt_difference(prompts[0], prompts[1], (one.label, other.label))
    if json_out:
        _print_json(
            {
                "a": one.label,
                "b": other.label,
                "fields": [each.model_dump(mode="json") for each in fields],
                "prompt": lines,
            }
        )
        return
    width, colour = terminal(sys.stdout)
    click.echo(as_difference(fields, lines, width=width, colour=colour), color=colour)


@command.command(context_settings=_HELP)
@click.argument("scaffold", required=False)
@click.option("--markdown", is_flag=True, help="As a table for a document.")
@_JSON
def factors(scaffold: str | None, markdown: bool, json_out: bool) -> None:
    """List all factors: what each is, what of an attempt it may touch, and where it is on.

    With SCAFFOLD only its own are looked at: whether they are on, or their values.
    """
    found = [load_scaffold(name) for name in ([scaffold] if scaffold else shipped_scaffolds())]
    rows = table(found)
    if json_out:
        _print_json([line.model_dump(mode="json", exclude={"on", "value"}) | {"on": on} for line, on in rows])
    elif markdown:
        click.echo(as_markdown(rows))
    else:
        click.echo(harmless(as_factors(rows, terminal(sys.stdout)[0])))


@command.command(context_settings=_HELP)
@click.argument("name")
@click.option("--from", "source", required=True, metavar="NAME|FILE", help="The scaffold to begin from.")
@click.option("--into", type=click.Path(path_type=Path), metavar="FILE", help="Where to. [NAME.yaml]")
def new(name: str, source: str, into: Path | None) -> None:
    """Write a scaffold of your own, NAME, with all texts in one file: another's, to be changed."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,60}", name):
        raise InputError(f"{name!r} is no name for a scaffold", remedy="letters, digits, dots and dashes")
    if name in shipped_scaffolds():
        raise InputError(f"{name} is a shipped scaffold", remedy="take another name")
    file = into or Path(f"{name}.yaml")
    if file.suffix not in SCAFFOLD_FILES:
        raise InputError("a scaffold's file ends in .yaml", file=file)
    text = as_file(load_scaffold(source), name=name, folder=file.parent)
    try:
        with file.open("x", encoding="utf-8") as out:
            out.write(text)
    except FileExistsError:
        raise InputError("is there already", file=file, remedy="name another with --into") from None
    except OSError as error:
        raise InputError(f"can't be written: {error.strerror}", file=file) from None
    click.echo(f"{file}: change it, then agentctl scaffold check {file}")


@command.command(context_settings=_HELP)
@click.argument("name", metavar="NAME|FILE")
@click.option("--dataset", metavar="NAME|FILE", help="Whose answers must not be in its texts. [all that are here]")
@_JSON
def check(name: str, dataset: str | None, json_out: bool) -> None:
    """Look at a scaffold before an agent gets it: its parts, its tools, its prompt at each level.

    Its texts are held against the recorded answers, of which none may be in them. Exit status 1 when it is not right.
    """
    from agentctl.benchmarks.scaffold_check import check_scaffold

    scaffold = load_scaffold(name)
    refs = [locate(EXAMPLE, level, environment=os.environ).ref for level in LEVELS]
    looked = list(check_scaffold(scaffold, refs, _datasets(dataset)))
    if json_out:
        _print_json([each.model_dump() for each in looked])
    else:
        width = terminal(sys.stdout)[0]
        for each in looked:
            lines = folded(each.told, width - 17)
            click.echo(f"{MARKS[each.state]} {each.name:<14} " + f"\n{' ' * 17}".join(lines))
    sys.exit(1 if any(each.state == "wrong" for each in looked) else 0)


def _datasets(name: str | None) -> list[Dataset]:
    """The datasets whose answers are looked for: the one named, or the examples and all in the store."""
    store = Store.of(os.environ)
    if name is not None:
        return [load_dataset(file_of(store, named(store, name)) if is_name(store, name) else Path(name))]
    files = [examples() / "dataset.json", *(file_of(store, each) for each in all_held(store))]
    return [load_dataset(file) for file in files]


def _prompt(scaffold: Scaffold, task: str, dataset: str | None, level: str) -> tuple[TaskRef, Prompt]:
    given = Given("flag")
    if dataset:
        given.put(("data", "dataset"), dataset, "--dataset")
    settings = read_config(given, environment=os.environ).settings
    located = locate(
        task,
        level,
        dataset=settings.data.dataset,
        capsules=settings.data.capsules,
        environment=os.environ,
        or_shipped=dataset is None,
    )
    return located.ref, preview(scaffold, located.ref, place_here(settings.sandbox.network))


def _values(texts: tuple[str, ...]) -> dict[str, object]:
    """Values to set, from NAME=VALUE."""
    found: dict[str, object] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise InputError(f"{text!r} is not of the form NAME=VALUE", field="--set")
        found[name.strip()] = value.strip()
    return found


def _print_json(document: object) -> None:
    click.echo(json.dumps(document, ensure_ascii=False, indent=1))
