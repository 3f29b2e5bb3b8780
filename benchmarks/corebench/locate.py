"""From what a person types to a task: where its entry is, where its capsule is, what is known of it."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from agentctl.agents.task import TaskRef
from agentctl.base.errors import InputError
from agentctl.base.jsonio import digest
from agentctl.base.paths import means_file, portable, resolve
from agentctl.base.text import clean, head

from .dataset import DATASET_FILES, Capsule, load_dataset
from .store.catalog import Edition, published
from .store.flaws import Flaw, known_flaws
from .store.library import Held, all_held, file_of, is_name, named
from .store.place import Store
from .store.room import used_now
from .task import task_digest

_EXAMPLES = "examples"


@dataclass(frozen=True)
class Located:
    """A task that was found, and the shipped recordings of runs of it, by the name of the scaffold."""

    ref: TaskRef
    recordings: Mapping[str, str]


@dataclass(frozen=True)
class Found:
    """An entry of a dataset file. `edition` is the dataset in the store that the file belongs to, if it is there."""

    entry: Capsule
    file: Path
    dataset: str | None  # its name, where the file is known to be that dataset
    edition: Edition | None = None


def examples() -> Path:
    """The folder of the shipped examples."""
    return Path(str(files("agentctl").joinpath("examples")))


def locate(
    name: str,
    level: str,
    *,
    dataset: str | Path | None = None,
    capsules: Path | None = None,
    environment: Mapping[str, str] | None = None,
    or_shipped: bool = False,
) -> Located:
    """The task that `name`, an id or the beginning of one, means at `level`.

    `dataset` is as for `find`, `capsules` the folder with the folder of its id. Without `capsules` that is the store
    for a dataset in it, else the folder `capsules` beside the dataset's file. InputError says what was not found, and
    where it was looked for. `environment` tells where the store is; by default the process's. `or_shipped`: `dataset`
    and `capsules` are said for all tasks, so a shipped example that is not there is found all the same.
    """
    store = Store.of(os.environ if environment is None else environment)
    found = find(name, dataset, store, or_shipped=or_shipped)
    task = found.entry.capsule_id
    example = found.file == examples() / "dataset.json"
    if or_shipped and example and capsules and not (capsules / task).is_dir():
        capsules = None
    slot = store.slot(found.edition.collection, task) if found.edition else None
    folder = capsules / task if capsules else slot.folder if slot else found.file.parent / "capsules" / task
    if not folder.is_dir():
        if slot is not None and capsules is None:
            raise InputError(
                f"{task} of the dataset {found.dataset} is not here yet",
                remedy=f"agentctl capsule fetch {task} --dataset {found.dataset}",
            )
        remedy = "unpack the capsule there, or name the folder that holds it"
        raise InputError("no such capsule folder", file=folder, field="--capsules", remedy=remedy)
    if slot is not None:
        used_now(slot)
    shipped = example and capsules is None and (or_shipped or dataset in (None, _EXAMPLES))
    return Located(
        ref=TaskRef(
            benchmark="corebench",
            id=task,
            level=level,
            dataset=portable(found.file),
            source=portable(folder),
            digest=task_digest(found.entry, level, folder),
        ),
        recordings=_recordings(task, level) if shipped else {},
    )


def flaws_of(ref: TaskRef, environment: Mapping[str, str]) -> list[Flaw]:
    """What is known to be wrong with a task. InputError where the user's own list is odd."""
    store = Store.of(environment)
    name = _name_of(resolve(ref.dataset), store)
    return [flaw for flaw in known_flaws(store.flaws) if flaw.holds(ref.id, name)]


def _name_of(file: Path, store: Store) -> str | None:
    """Which dataset a file is of: by its place in the store, else by its digest."""
    if file.parent.parent == store.datasets:
        return file.parent.name
    if file == examples() / "dataset.json":
        return _EXAMPLES
    sha256 = digest(file.read_bytes()) if file.is_file() else None
    return next((edition.name for edition in published().values() if edition.sha256 == sha256), None)


def recordings() -> Path:
    """The folder of the shipped recordings: `SCAFFOLD/CAPSULE-LEVEL` are records of whole attempts."""
    return examples() / "recordings"


def _recordings(task: str, level: str) -> dict[str, str]:
    found = sorted(recordings().glob(f"*/{task}-{level}/events.jsonl"))
    return {path.parent.parent.name: portable(path.parent) for path in found}


def find(name: str, dataset: str | Path | None, store: Store, *, or_shipped: bool = False) -> Found:
    """The entry that `name`, an id or the beginning of one, means.

    `dataset` is the name of one in the store, `examples`, or a file. Without it the shipped examples are looked at
    first, then all datasets in the store. InputError where nothing fits, or more than one. `or_shipped`: what `dataset`
    does not hold may be the whole id of a shipped example.
    """
    if dataset is None:
        return _found_anywhere(name, store)
    file = examples() / "dataset.json"
    shipped = load_dataset(file)
    if dataset == _EXAMPLES:
        return Found(shipped.find(name), file, _EXAMPLES)
    try:
        return _found_there(name, dataset, store)
    except InputError as error:
        if not any(capsule.capsule_id == name for capsule in shipped.capsules):
            raise
        if or_shipped:
            return Found(shipped.find(name), file, _EXAMPLES)
        remedy = f"{name} comes with agentctl: --dataset {_EXAMPLES}"
        raise InputError(error.problem, file=error.file, field=error.field, remedy=remedy) from None


def _found_there(name: str, dataset: str | Path, store: Store) -> Found:
    file = Path(dataset)
    if is_name(store, str(dataset)) or not (means_file(str(dataset), DATASET_FILES) or file.exists()):
        return _found_in(named(store, str(dataset)), name, store)
    return Found(load_dataset(file).find(name), file, _name_of(file, store))


def _found_in(dataset: Held, name: str, store: Store) -> Found:
    file = file_of(store, dataset)
    return Found(load_dataset(file).find(name), file, dataset.edition.name, dataset.edition)


def _found_anywhere(name: str, store: Store) -> Found:
    file = examples() / "dataset.json"
    shipped = load_dataset(file)
    ids = [capsule.capsule_id for capsule in shipped.capsules]
    if any(each.startswith(name) for each in ids):
        return Found(shipped.find(name), file, _EXAMPLES)
    here = all_held(store)
    fitting = [each for each in here if any(task.id.startswith(name) for task in each.tasks)]
    if len(fitting) == 1:
        return _found_in(fitting[0], name, store)
    if fitting:
        names = [each.edition.name for each in fitting]
        raise InputError(
            f"{name!r} is in several datasets", field="--dataset", remedy=f"name one of {', '.join(names)}"
        )
    close = difflib.get_close_matches(head(name, 200), [*ids, *(task.id for each in here for task in each.tasks)], n=3)
    absent = [each for each in published() if each not in {held.edition.name for held in here}]
    remedy = f"did you mean {' or '.join(close)}?" if close else "agentctl capsule list shows what there is"
    if absent:
        remedy += f"; not here yet: the datasets {' and '.join(absent)} (agentctl capsule fetch --dataset {absent[0]})"
    raise InputError(f"no capsule {head(clean(name), 100)!r} among what is here", remedy=remedy)


def recorded_levels(ref: TaskRef) -> list[str]:
    """The levels at which a recorded run of the shipped task `ref` is shipped too, sorted by name."""
    if resolve(ref.dataset) != examples() / "dataset.json":
        return []
    found = recordings().glob(f"*/{ref.id}-*/events.jsonl")
    return sorted({path.parent.name.removeprefix(f"{ref.id}-") for path in found})
