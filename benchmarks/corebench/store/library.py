"""The datasets that are in the store: each file under its dataset's name, with what is needed to list it quickly."""

from __future__ import annotations

import difflib
import re
import shutil
from pathlib import Path

from pydantic import ValidationError

from agentctl.base.errors import InputError, refused
from agentctl.base.jsonio import digest, write_atomically
from agentctl.base.values import Frozen

from ..dataset import Dataset, load_dataset
from .catalog import NAME, Edition, published
from .encrypted import ABOUT, is_encrypted
from .place import Slot, Store


class Listed(Frozen):
    """What a list tells of a task. Kept beside an encrypted file, too: nothing of it is what was encrypted for."""

    id: str
    field: str
    language: str
    gpu: bool


class Held(Frozen):
    """A dataset in the store."""

    edition: Edition
    file: str  # name of its file, beside this
    sha256: str
    tasks: tuple[Listed, ...]


def held(store: Store, name: str) -> Held | None:
    """The dataset of that name, if it is in the store."""
    about = store.datasets / name / ABOUT
    try:
        return Held.model_validate_json(about.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValidationError as error:
        raise refused(error, file=about, remedy="import the dataset again") from None


def file_of(store: Store, dataset: Held) -> Path:
    """The dataset's file."""
    return store.datasets / dataset.edition.name / dataset.file


def all_held(store: Store) -> list[Held]:
    """The datasets in the store, the published ones first."""
    names = sorted(path.parent.name for path in store.datasets.glob(f"*/{ABOUT}"))
    names.sort(key=lambda name: name not in published())
    return [found for name in names if (found := held(store, name)) is not None]


def is_name(store: Store, text: str) -> bool:
    """Whether `text` is the name of a dataset: of a published one, or of one in the store."""
    return text in published() or (re.fullmatch(NAME, text) is not None and held(store, text) is not None)


def named(store: Store, name: str) -> Held:
    """The dataset of that name. InputError says how to get it, or which names there are."""
    if is_name(store, name) and (found := held(store, name)) is not None:
        return found
    if name in published():
        remedy = f"agentctl capsule fetch --dataset {name}"
        raise InputError(f"the dataset {name} is not here yet", field="--dataset", remedy=remedy)
    names = [*published(), *(each.edition.name for each in all_held(store) if each.edition.name not in published())]
    close = difflib.get_close_matches(name, names, n=1)
    raise InputError(
        f"no dataset is named {name!r}",
        field="--dataset",
        remedy=f"did you mean {close[0]}?" if close else f"there are {', '.join(names)}; or name a file",
    )


def take_in(store: Store, file: Path, edition: Edition, *, replace: bool = False) -> Held:
    """Copy the dataset in `file` into the store under the name of `edition`.

    The file is kept as it is, an encrypted one encrypted; a file that had the name before stays for the records that
    were made with it. InputError where it is no dataset, is not the published file of its name, or where another one
    has the name and `replace` is not asked for.
    """
    dataset = load_dataset(file, passphrase=edition.passphrase)
    if edition.sha256 not in (None, dataset.digest):
        raise InputError(
            f"has SHA-256 {dataset.digest}, but {edition.name} is the file with {edition.sha256}",
            file=file,
            remedy="import it under another --name",
        )
    before = held(store, edition.name)
    if before is not None and before.sha256 != dataset.digest and not replace:
        raise InputError(
            f"{edition.name} is already another dataset, with SHA-256 {before.sha256[:12]}…",
            file=file,
            field="--name",
            remedy="choose another name, or say --replace",
        )
    return _kept(store, file.read_bytes(), dataset, edition)


def take_out(store: Store, name: str) -> list[Slot]:
    """Remove the dataset of that name, with all files that ever had it; its capsules stay.

    Gives back those of them that no dataset has any more: the collection was its own. InputError where there is none of
    that name. Records that were made with it can't be scored again.
    """
    collection = named(store, name).edition.collection
    folder = store.datasets / name
    (folder / ABOUT).unlink()  # from here on it is gone, if killed or not
    shutil.rmtree(folder)
    others = {each.edition.collection for each in all_held(store)} | {each.collection for each in published().values()}
    return [] if collection in others else [slot for slot in store.present() if slot.collection == collection]


def _kept(store: Store, data: bytes, dataset: Dataset, edition: Edition) -> Held:
    if digest(data) != dataset.digest:
        raise InputError("changed while it was read", file=dataset.path, remedy="try again")
    found = Held(
        edition=edition,
        file=f"{dataset.digest[:16]}.json" + (".gpg" if is_encrypted(data) else ""),
        sha256=dataset.digest,
        tasks=listed(dataset),
    )
    folder = store.datasets / edition.name
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / found.file, data)
    write_atomically(folder / ABOUT, found.model_dump_json(indent=1).encode())
    return found


def listed(dataset: Dataset) -> tuple[Listed, ...]:
    """What a list tells of each task, in the dataset's order."""
    return tuple(
        Listed(id=each.capsule_id, field=each.field, language=each.language, gpu=each.gpu) for each in dataset.capsules
    )
