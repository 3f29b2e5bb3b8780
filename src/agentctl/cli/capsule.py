"""`agentctl capsule`: the datasets and capsules on this machine."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentctl.base.errors import InputError
from agentctl.base.values import Frozen
from agentctl.benchmarks.corebench.locate import find
from agentctl.benchmarks.corebench.store.catalog import PUBLISHED_CAPSULES, Edition, published
from agentctl.benchmarks.corebench.store.library import Held, all_held, held, named, take_in, take_out
from agentctl.benchmarks.corebench.store.place import Slot, Store
from agentctl.benchmarks.corebench.store.room import in_words, least_used, remove, used
from agentctl.benchmarks.corebench.store.seal import Difference, Seal, verify

from .capsule_text import Progress, as_list, as_text, shelves, shown
from .live import terminal
from .words import count, harmless

if TYPE_CHECKING:
    from agentctl.benchmarks.corebench.store.fetch import Fetched

_HELP = {"help_option_names": ["-h", "--help"]}
_JSON = click.option("--json", "json_out", is_flag=True, help="One JSON document on standard output.")
_DATASET = click.option("--dataset", help="train, test, or an imported one.")
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


class Size(click.ParamType[int]):
    """`20GB`, `500 MB`, `12000`: bytes."""

    name = "SIZE"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)b?", str(value).strip().lower())
        if match is None:
            self.fail(f"{value!r} is no size; write it as 20GB", param, ctx)
        return int(float(match[1]) * _UNITS[match[2]])


@click.group(context_settings=_HELP)
def command() -> None:
    """Datasets and their capsules: list, fetch, import, check, remove.

    They are kept in the folder AGENTCTL_DATA, by default ~/.local/share/agentctl.
    """


@command.command("list", context_settings=_HELP)
@_DATASET
@click.option("--fetched", is_flag=True, help="Only capsules that are here.")
@_JSON
def list_(dataset: str | None, fetched: bool, json_out: bool) -> None:
    """List datasets and their tasks: levels, size, what is here, known flaws."""
    store = Store.of(os.environ)
    here = [named(store, dataset)] if dataset else all_held(store)
    absent = [] if dataset else [each for each in published().values() if held(store, each.name) is None]
    found = shelves(store, here, absent, with_examples=dataset is None)
    if json_out:
        click.echo(json.dumps([shelf.model_dump(mode="json") for shelf in found], ensure_ascii=False, indent=1))
    else:
        click.echo(harmless(as_list(found, terminal()[0], fetched=fetched)))


@command.command(context_settings=_HELP)
@click.argument("task")
@click.option("--dataset", help="train, test, an imported name, or a dataset file.")
@_JSON
def show(task: str, dataset: str | None, json_out: bool) -> None:
    """Show what TASK asks, what is known to be wrong with it, and where its capsule is. No answers."""
    store = Store.of(os.environ)
    told = shown(store, find(task, dataset, store))
    click.echo(_json(told) if json_out else harmless(as_text(told, terminal()[0])))


class FetchedCapsule(Frozen):
    """One capsule as `fetch --json` tells it."""

    id: str
    folder: str
    new: bool
    seal: Seal | None


@command.command("fetch", context_settings=_HELP)
@click.argument("tasks", nargs=-1)
@click.option("--dataset", help="train, test, or an imported one. Alone, it fetches the dataset's file.")
@click.option("--all", "whole", is_flag=True, help="All capsules of the dataset.")
@click.option(
    "--mirror", metavar="ADDRESS", help="Address or folder with the archives as <id>.tar.gz, the dataset by its name."
)
@click.option("--budget", type=Size(), help="The most that the whole store may take, as 20GB.")
@click.option("--lock", type=click.Path(path_type=Path), help="File with the archives' digests. [the store's]")
@click.option("--accept-changed", is_flag=True, help="Take archives whose digests have changed.")
@_JSON
def fetch_(
    tasks: tuple[str, ...],
    dataset: str | None,
    whole: bool,
    mirror: str | None,
    budget: int | None,
    lock: Path | None,
    accept_changed: bool,
    json_out: bool,
) -> None:
    """Download the capsules of TASKS, ids or beginnings of ids.

    A download that was stopped is gone on with. The digest of each archive is pinned at its first download; one that
    has changed later is refused.
    """
    from agentctl.benchmarks.corebench.store.fetch import Fetching, fetch

    store, progress = Store.of(os.environ), Progress(sys.stderr)
    if whole and dataset is None:
        raise click.UsageError("name the --dataset to fetch --all of")
    if not tasks and dataset is None:
        raise click.UsageError("name TASKS, or a --dataset")
    held_one = _held_or_fetched(store, dataset, progress, mirror) if dataset else None
    wanted = _wanted(store, tasks, held_one, whole=whole)
    how = Fetching(mirror=mirror, lock_file=lock, budget=budget, accept_changed=accept_changed)
    done = []
    for edition, capsule_id in wanted:
        with progress.about(capsule_id):
            got = fetch(store, edition, capsule_id, how, progress)
        done.append(_as_fetched(got))
        if not json_out:
            click.echo(_told(got))
    if json_out:
        click.echo(json.dumps([each.model_dump(mode="json") for each in done], indent=1))
    elif held_one is not None and not wanted:
        _tell_dataset(held_one)


def _held_or_fetched(store: Store, dataset: str, progress: Progress, mirror: str | None) -> Held:
    from agentctl.benchmarks.corebench.store.fetch import fetch_dataset

    if dataset not in published():
        return named(store, dataset)
    with progress.about(dataset):
        return fetch_dataset(store, published()[dataset], progress, mirror=mirror)


def _wanted(store: Store, tasks: tuple[str, ...], dataset: Held | None, *, whole: bool) -> list[tuple[Edition, str]]:
    """The capsules that were asked for, each with its dataset. All are found before the first is downloaded."""
    if whole and dataset is not None:
        return [(dataset.edition, task.id) for task in dataset.tasks]
    wanted = []
    for name in tasks:
        found = find(name, dataset.edition.name if dataset else None, store)
        if found.edition is None:
            raise InputError(f"{found.entry.capsule_id} comes with agentctl: nothing is to be fetched")
        wanted.append((found.edition, found.entry.capsule_id))
    return wanted


def _as_fetched(got: Fetched) -> FetchedCapsule:
    return FetchedCapsule(id=got.slot.id, folder=str(got.slot.folder), new=got.new, seal=got.seal)


def _told(got: Fetched) -> str:
    if got.seal is None:
        return f"{got.slot.id}: was put there by hand, {got.slot.folder}"
    state = "fetched" if got.new else "is here"
    size = f"{count(got.seal.files, 'file')}, {in_words(got.seal.unpacked)}"
    return f"{got.slot.id}: {state}, {size}, sha256 {got.seal.sha256[:12]}…, {got.slot.folder}"


def _tell_dataset(dataset: Held) -> None:
    name = dataset.edition.name
    click.echo(f"{name}: {count(len(dataset.tasks), 'capsule')}, sha256 {dataset.sha256}")
    click.echo(f"its capsules: agentctl capsule fetch ID... --dataset {name}, or --all")


@command.command("import", context_settings=_HELP)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--name", required=True, help="What it is called from now on, for example v1.1.")
@click.option("--version", default="", help="Which version of the dataset it is.")
@click.option("--capsules", metavar="ADDRESS", help=f"Where its capsules are. [{PUBLISHED_CAPSULES}]")
@click.option("--passphrase", help="Of an encrypted file; kept beside it. Published ones are known.")
@click.option("--replace", is_flag=True, help="Take the name from the dataset that has it.")
def import_(file: Path, name: str, version: str, capsules: str | None, passphrase: str | None, replace: bool) -> None:
    """Copy the dataset FILE, of the form of the benchmark's own, into the store under a name."""
    store = Store.of(os.environ)
    if name in published():
        if version or capsules or passphrase:
            raise click.UsageError(f"{name} is a published dataset: leave out --version, --capsules and --passphrase")
        edition = published()[name]
    else:
        edition = Edition.brought(name, version=version, capsules=capsules, passphrase=passphrase, source=str(file))
    _tell_dataset(take_in(store, file, edition, replace=replace))


@command.command("verify", context_settings=_HELP)
@click.argument("tasks", nargs=-1)
@_JSON
def verify_(tasks: tuple[str, ...], json_out: bool) -> None:
    """Compare the files of fetched capsules with what was unpacked; without TASKS, of all. Exit 1 if any differs."""
    store = Store.of(os.environ)
    slots = [_slot(store, task) for task in tasks] if tasks else store.sealed()
    found: dict[str, list[Difference]] = {}
    for slot in slots:
        found[slot.key] = verify(slot)
        if not json_out:
            click.echo(f"{slot.id}: {count(len(found[slot.key]), 'difference') if found[slot.key] else 'as unpacked'}")
            for difference in found[slot.key]:
                click.echo(harmless(f"  {difference.how}: {difference.path}"))
    if json_out:
        document = {key: [each.model_dump() for each in differences] for key, differences in found.items()}
        click.echo(json.dumps(document, ensure_ascii=False, indent=1))
    if any(found.values()):
        sys.exit(1)


@command.command("remove", context_settings=_HELP)
@click.argument("tasks", nargs=-1)
@click.option("--dataset", metavar="NAME", help="Remove this dataset, and the capsules that no other one has.")
@click.option("--until", type=Size(), help="Remove the least recently used until the store takes at most that.")
def remove_(tasks: tuple[str, ...], dataset: str | None, until: int | None) -> None:
    """Remove capsules, or a dataset. The capsules' digests stay pinned.

    Records made with a removed dataset can be shown, but not scored or played again.
    """
    store = Store.of(os.environ)
    if not tasks and until is None and dataset is None:
        raise click.UsageError("name TASKS, --dataset NAME or --until SIZE")
    if tasks and dataset:
        raise click.UsageError("name TASKS or a --dataset, not both: a capsule of one dataset is DATASET/ID")
    slots = [_slot(store, task) for task in tasks]
    if dataset:
        slots = take_out(store, dataset)
        click.echo(f"{dataset}: removed")
    for slot in slots:
        click.echo(f"{slot.id}: removed, {in_words(remove(slot))}")
    for slot in least_used(store.sealed()):
        if until is None or used(store) <= until:
            return
        click.echo(f"{slot.id}: removed, {in_words(remove(slot))}")


def _slot(store: Store, name: str) -> Slot:
    """The capsule in the store that `name` means: an id or the beginning of one, or COLLECTION/ID."""
    present = store.present()
    fitting = [slot for slot in present if name in (slot.id, slot.key)]
    fitting = fitting or [slot for slot in present if slot.id.startswith(name)]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        some = ", ".join(slot.key for slot in fitting[:5])
        raise InputError(f"{name!r} fits {len(fitting)} capsules", remedy=f"name one: {some}")
    raise InputError(f"{name!r} is not in the store", file=store.root, remedy="agentctl capsule list --fetched")


def _json(value: Frozen) -> str:
    return json.dumps(value.model_dump(mode="json"), ensure_ascii=False, indent=1)
