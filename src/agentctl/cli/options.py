"""The flags that give settings: which there are. Their types and defaults are those of the settings."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

import click

from agentctl.agents.factors import VALUES
from agentctl.base.errors import InputError
from agentctl.benchmarks.config import Given, find_setting, variable
from agentctl.benchmarks.settings import Key, Settings, fields, is_list, is_table

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Flag:
    """A flag for the setting `key`. `metavar` where the type does not say what to write."""

    key: Key
    name: str
    help: str
    metavar: str = ""

    @property
    def parameter(self) -> str:
        """The name under which click hands over its value: the setting's, so that none of click's own collides."""
        return "__".join(("set", *self.key))


FLAGS = (
    Flag(("data", "dataset"), "--dataset", "A dataset's name, or its file.", "NAME|FILE"),
    Flag(("data", "capsules"), "--capsules", "Folder that holds the capsules.", "DIR"),
    Flag(("model", "name"), "--model", "openai/..., anthropic/..., replay:RECORD, script:FILE or human.", "NAME"),
    Flag(("fast", "name"), "--fast-model", "The model for summaries, where it is another.", "NAME"),
    Flag(("vision", "name"), "--vision-model", "The model that sees images, where it is another.", "NAME"),
    Flag(("model", "api_base"), "--api-base", "An OpenAI-compatible endpoint for the model.", "URL"),
    Flag(("model", "client"), "--client", "What speaks to the provider."),
    Flag(("model", "temperature"), "--temperature", ""),
    Flag(("model", "top_p"), "--top-p", ""),
    Flag(("model", "effort"), "--effort", "Reasoning effort, as the provider names it.", "WORD"),
    Flag(("model", "thinking_budget"), "--thinking-budget", "Tokens a reply."),
    Flag(("model", "output_limit"), "--output-limit", "Tokens a reply."),
    Flag(("model", "context_window"), "--context-window", "Tokens, where the price table does not know."),
    Flag(("model", "stream"), "--stream/--no-stream", "Off for a server that can't."),
    Flag(("scaffold",), "--scaffold", "A shipped scaffold, or a .yaml file.", "NAME|FILE"),
    Flag(("with",), "--with", "Switch a factor of the scaffold on, or put in a hint's .md file.", "NAME"),
    Flag(("without",), "--without", "Switch a factor of the scaffold off.", "NAME"),
    Flag(("limits", "cost_usd"), "--cap", "Most that the attempt may cost.", "USD"),
    Flag(("limits", "steps"), "--steps", "Most replies of the model."),
    Flag(("limits", "seconds"), "--time", "Of work; waiting for the provider is not counted.", "SECONDS"),
    Flag(("prices", "lines"), "--price", "Dollars a million tokens, or NAME=free.", "NAME=IN,OUT"),
    Flag(("prices", "file"), "--prices", "A file of prices (JSON or YAML).", "FILE"),
    Flag(("sandbox", "kind"), "--sandbox", "Where commands run."),
    Flag(("sandbox", "network"), "--network", "What they reach. A recording: as it was recorded."),
    Flag(("sandbox", "allow_hosts"), "--allow-host", "One more host that they reach.", "HOST[:PORT]"),
    Flag(("sandbox", "memory_mb"), "--memory", "For the sandbox.", "MB"),
    Flag(("sandbox", "rootfs"), "--rootfs", "A system in place of this machine's, as debootstrap makes it.", "DIR"),
    Flag(("records", "keep"), "--keep", "What of the workspace is kept in the record."),
)


def setting_options(*, hidden: bool = False) -> Callable[[F], F]:
    """Gives a command all flags of settings, and `--set` for those without. `given` reads them."""

    def decorate(command: F) -> F:
        option = click.option(
            "--set", "set_values", multiple=True, metavar="KEY=VALUE", hidden=hidden,
            help="Any setting (limits.command_seconds=60, model.extra.top_k=5), or a value of the scaffold's: "
            "history, protocol, role, ... (history=condense; agentctl scaffold factors).",
        )  # fmt: skip
        command = option(command)
        for flag in reversed(FLAGS):
            command = _option(flag, hidden)(command)
        return command

    return decorate


def given(values: Mapping[str, Any], set_values: tuple[str, ...]) -> Given:
    """The settings that flags give. `values` are click's, of flags and of others. InputError for a `--set` of none."""
    found = Given("flag")
    for flag in FLAGS:
        value = values.get(flag.parameter)
        if value is None or value == ():
            continue
        if _annotation(flag.key) is Decimal:
            value = value.lstrip("$")
        name = (
            f"--no-{flag.name.removeprefix('--').partition('/')[0]}" if value is False else flag.name.partition("/")[0]
        )
        found.put(flag.key, value, name)
    for text in set_values:
        name, equals, value = text.partition("=")
        if not equals:
            raise InputError(f"{text!r} is not of the form KEY=VALUE", field="--set")
        found.put(_key(name.strip()), value.strip(), f"--set {name.strip()}")
    return found


def _key(name: str) -> Key:
    if name in VALUES:
        return "factors", name
    try:
        return find_setting(name)
    except InputError as error:
        near = difflib.get_close_matches(name, VALUES, n=1)
        remedy = f"did you mean {near[0]}?" if near else error.remedy
        raise InputError(error.problem, field=f"--set {name}", remedy=remedy) from None


def _option(flag: Flag, hidden: bool) -> Callable[[F], F]:
    annotation = _annotation(flag.key)
    many = is_list(flag.key) or is_table(flag.key)
    metavar = flag.metavar or _metavar(annotation)
    told = f"{flag.help} {_default(flag.key)}".strip()
    if annotation is bool:
        return click.option(flag.name, flag.parameter, default=None, hidden=hidden, help=told)
    return click.option(flag.name, flag.parameter, multiple=many, metavar=metavar, hidden=hidden, help=told)


def _default(key: Key) -> str:
    """The default as help shows it, or the variable that names one."""
    if key == ("model", "name"):
        return f"[{variable(key)}]"
    value = Settings().value(key)
    return "" if value in (None, "", (), {}) or isinstance(value, bool) else f"[{value}]"


def _annotation(key: Key) -> Any:
    """The type of a setting, where it may be None too, that of the rest."""
    annotation = fields()[key].annotation
    some = [each for each in get_args(annotation) if each is not type(None)]
    return (
        some[0] if some and get_origin(annotation) is not Literal and type(None) in get_args(annotation) else annotation
    )


def _metavar(annotation: Any) -> str:
    if get_origin(annotation) is Literal:
        return "|".join(get_args(annotation))
    return {int: "N", float: "X", Path: "FILE"}.get(annotation, "TEXT")
