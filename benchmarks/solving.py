"""solve(): one attempt from Python, with the settings of the command line."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from agentctl.agents.coherence import check_coherent
from agentctl.agents.manifest import read_manifest
from agentctl.agents.models.protocol import ModelSpec
from agentctl.agents.plugins import names_code
from agentctl.agents.record import Listener
from agentctl.agents.scaffold import Scaffold, load_scaffold
from agentctl.agents.spec import AttemptSpec, Keep, Limits, Prices
from agentctl.agents.switching import TEXTS, switch
from agentctl.base.cancel import Cancel
from agentctl.base.errors import InputError
from agentctl.base.paths import is_file, resolve
from agentctl.base.values import Frozen
from agentctl.prompts.hints import HINT_FILES
from agentctl.tools.sandbox.protocol import SandboxSpec

from .config import Config, Given, read_config
from .corebench.dataset import load_dataset
from .corebench.leaks import refuse_leaks, texts_of
from .corebench.locate import Located, locate, recorded_levels
from .helpers import helper_models
from .runner import Outcome, run
from .settings import Key


def solve(
    task: str,
    *,
    level: str = "hard",
    model: str | ModelSpec | None = None,
    fast_model: str | ModelSpec | None = None,
    vision_model: str | ModelSpec | None = None,
    scaffold: str | Scaffold | None = None,
    dataset: str | Path | None = None,
    capsules: str | Path | None = None,
    limits: Limits | None = None,
    prices: Prices | None = None,
    sandbox: SandboxSpec | None = None,
    keep: Keep | None = None,
    record: str | Path | None = None,
    cancel: Cancel | None = None,
    listener: Listener | None = None,
    environment: Mapping[str, str] | None = None,
) -> Outcome:
    """Run an agent on the capsule `task` (an id, or the beginning of one) and return what it left.

    `model` is a name as after --model, or a ModelSpec; so are those that write summaries and see images, which
    otherwise is left to `model`. What is not given, also of a ModelSpec and the like, is taken from the environment,
    from `agentctl.toml`, or is the command line's default; with no model at all a shipped recording is played. Keys are
    taken from `environment`, by default the process's own. Raises InputError or SetupError where the attempt can't
    start; how it went is in the outcome.
    """
    environment = os.environ if environment is None else environment
    given = Given("flag")
    for section, each in (("model", model), ("fast", fast_model), ("vision", vision_model)):
        _put(given, section, ModelSpec(name=each) if isinstance(each, str) else each)
    _put(given, "limits", limits)
    _put(given, "sandbox", sandbox)
    _put(given, "prices", prices)
    single = {
        ("scaffold",): scaffold if isinstance(scaffold, str) else None,
        ("data", "dataset"): str(dataset) if dataset else None,
        ("data", "capsules"): capsules,
        ("records", "keep"): keep,
    }
    for key, value in single.items():
        if value is not None:
            given.put(key, value, key[-1])
    spec = attempt_spec(
        read_config(given, environment=environment),
        task,
        level,
        environment=environment,
        scaffold=scaffold if isinstance(scaffold, Scaffold) else None,
        record=Path(record) if record else None,
    )
    return run(spec, cancel=cancel, listener=listener, environment=environment)


def _put(given: Given, section: str, values: Frozen | None) -> None:
    """Take what was given of one section: not what is a default of the value's."""
    for name in sorted(values.model_fields_set) if values else ():
        given.put((section, name), getattr(values, name), f"{section}.{name}")


def attempt_spec(
    config: Config,
    task: str,
    level: str,
    *,
    environment: Mapping[str, str],
    scaffold: Scaffold | None = None,
    record: Path | None = None,
) -> AttemptSpec:
    """The attempt at `task` that `config` describes. InputError where something it names is not there.

    `environment` tells where fetched datasets are.

    Where no model is named the shipped recording of that scaffold is played; that, and any other recording, with the
    network that it was recorded with, unless a flag says otherwise.
    """
    settings = config.settings
    data = settings.data
    located = locate(
        task,
        level,
        dataset=data.dataset,
        capsules=data.capsules,
        environment=environment,
        or_shipped=not config.said(("data", "dataset"), ("data", "capsules")),
    )
    scaffold = scaffold or chosen_scaffold(config)
    check_coherent(scaffold)
    refuse_leaks(texts_of(scaffold), load_dataset(resolve(located.ref.dataset)))
    model = settings.model.name or _shipped_recording(located, scaffold)
    sandbox = SandboxSpec.model_validate(settings.sandbox.model_dump())
    if model.startswith("replay:"):
        recorded = read_manifest(resolve(model.removeprefix("replay:")).expanduser()).spec
        if sandbox.kind != "local" and config.origin(("sandbox", "network")).place != "flag":
            sandbox = sandbox.model_copy(update={"network": recorded.sandbox.network})
    main = ModelSpec.model_validate(settings.model.model_dump() | {"name": model})
    return AttemptSpec(
        task=located.ref,
        scaffold=scaffold,
        model=main,
        helpers=helper_models(config, main, scaffold),
        limits=Limits.model_validate(settings.limits.model_dump()),
        prices=settings.prices.prices(),
        sandbox=sandbox,
        keep=settings.records.keep,
        record=record or new_record(settings.records.folder, located.ref.id, located.ref.level),
    )


def chosen_scaffold(config: Config) -> Scaffold:
    """The scaffold that `config` names, with the factors switched that it says. InputError says where it said so."""
    settings = config.settings
    with _told_where(config):
        scaffold = load_scaffold(settings.scaffold)
    _refuse_brought_code(config, scaffold)  # before switch(), which loads the tools
    _refuse_brought_files(config)
    with _told_where(config):
        return switch(scaffold, with_=settings.with_, without=settings.without, set_=settings.factors)


@contextmanager
def _told_where(config: Config) -> Iterator[None]:
    """Errors of a scaffold or a switch say where it was named, unless that was by a flag."""
    try:
        yield
    except InputError as error:
        option, _, name = (error.field or "").partition(" ")
        key = {"--with": ("with",), "--without": ("without",), "--set": ("factors", name)}.get(option, ("scaffold",))
        if config.origin(key).place == "flag":
            raise
        raise InputError(
            error.problem, file=config.origin(key).name or error.file, field=error.field, remedy=error.remedy
        ) from None


def _refuse_brought_code(config: Config, scaffold: Scaffold) -> None:
    """A project's file comes with whatever is cloned: only its reader can say that code of it may run out here.

    `scaffold` is the one that is named, as it was loaded.
    """
    named = {
        ("scaffold",): [code.source for code in scaffold.code.values() if code.is_file],
        ("with",): [name for name in config.settings.with_ if names_code(name)],
    }
    for key, code in named.items():
        if code and config.of_project(key):
            raise InputError(
                f"a project's file may not name code that runs outside the sandbox: {code[0]}",
                file=config.origin(key).name,
                field=key[0],
                remedy=f"say it by a flag: --{key[0]}",
            )


def _refuse_brought_files(config: Config) -> None:
    """A text or a hint is sent and recorded, so a project's file may name only files of the project as such."""
    if config.project is None:
        return
    named: list[tuple[Key, str]] = [
        (("with",), name) for name in config.settings.with_ if Path(name).suffix in HINT_FILES
    ]
    named += [(("factors", text), str(config.settings.factors.get(text, ""))) for text in TEXTS]
    folder = config.project.path.parent.resolve()
    for key, name in named:
        if config.of_project(key) and is_file(Path(name)) and not Path(name).resolve().is_relative_to(folder):
            raise InputError(
                f"a project's file may not name a file outside its folder: {name}",
                file=config.origin(key).name,
                field=".".join(key),
                remedy=f"say it by a flag: --{key[0] if key[0] == 'with' else f'set {key[1]}={name}'}",
            )


def _shipped_recording(located: Located, scaffold: Scaffold) -> str:
    """The recording that is played where no model is named. InputError where none is shipped of that scaffold."""
    recording = located.recordings.get(scaffold.name)
    if recording and not scaffold.changes:
        return f"replay:{recording}"
    levels = recorded_levels(located.ref)
    shipped = ""
    remedy = f"export OPENAI_API_KEY=... ; agentctl solve {located.ref.id} --model openai/gpt-5"
    if located.recordings:
        shipped = f", and of {scaffold.label} no recorded run is shipped"
        remedy += f"; or try --scaffold {' or '.join(located.recordings)}, as it is"
    elif levels:
        shipped = f", and a recorded run is shipped for {' and '.join(levels)} alone"
        remedy += f"; or try --level {levels[-1]}"
    raise InputError(f"no model is given{shipped}", field="--model", remedy=remedy)


def new_record(folder: Path, task: str, level: str) -> Path:
    """A place in `folder` that is not taken yet, named by task, level and time.

    By chance too: of attempts that start in the same second none sees the others yet, and they may be on many machines.
    """
    while True:
        path = folder / f"{task}-{level}-{datetime.now():%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
        if not os.path.lexists(path):
            return path
