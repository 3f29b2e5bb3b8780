"""What `agentctl capsule` shows: lists, one task, and how a download goes. Never a recorded answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TextIO

import click

from agentctl.base.values import Frozen
from agentctl.benchmarks.corebench.dataset import Level, load_dataset
from agentctl.benchmarks.corebench.locate import Found, examples
from agentctl.benchmarks.corebench.store.catalog import Edition
from agentctl.benchmarks.corebench.store.flaws import Flaw, known_flaws
from agentctl.benchmarks.corebench.store.library import Held, Listed, listed
from agentctl.benchmarks.corebench.store.pins import Pin, published_pins, read_lock
from agentctl.benchmarks.corebench.store.place import Slot, Store
from agentctl.benchmarks.corebench.store.room import in_words
from agentctl.benchmarks.corebench.store.seal import Seal, read_seal

from .words import count, fitted, harmless, padded, wrapped

_ALL_LEVELS = tuple(Level)
_TOLD = {"version", "split", "licence", "source", "note"}  # of a dataset


class Row(Frozen):
    """One task of a list. `size` is in bytes: of the unpacked capsule where that is known, else of its archive."""

    id: str
    field: str
    language: str
    gpu: bool
    levels: tuple[Level, ...]
    here: bool
    size: int | None
    flaws: tuple[Flaw, ...]


class Shelf(Frozen):
    """A dataset in a list. Without rows it is not here."""

    dataset: str
    version: str
    split: str
    licence: str
    source: str
    note: str
    rows: tuple[Row, ...] = ()

    @classmethod
    def of(cls, edition: Edition, rows: tuple[Row, ...] = ()) -> Shelf:
        """What a list tells of `edition`."""
        return cls(dataset=edition.name, rows=rows, **edition.model_dump(include=_TOLD))


class Shown(Frozen):
    """One task, without its answers."""

    id: str
    title: str
    field: str
    language: str
    doi: str
    dataset: tuple[str, ...]  # its name and version, its source, its licence
    task: str
    questions: tuple[str, ...]
    levels: tuple[Level, ...]
    folder: str | None
    seal: Seal | None  # how it was unpacked, if it was fetched
    flaws: tuple[Flaw, ...]
    to_fetch: str | None  # the command


def shelves(store: Store, here: list[Held], absent: list[Edition], *, with_examples: bool) -> list[Shelf]:
    """The datasets in the store with their tasks, then those that are not in it."""
    flaws = known_flaws(store.flaws)
    pins = {**published_pins(), **read_lock(store.lock_file).capsules}
    found = [
        Shelf.of(
            each.edition,
            tuple(
                _row(task, store.slot(each.edition.collection, task.id), pins, flaws, each.edition.name)
                for task in each.tasks
            ),
        )
        for each in here
    ]
    if with_examples:
        found.insert(0, _examples())
    return found + [Shelf.of(each) for each in absent]


def _row(task: Listed, slot: Slot, pins: dict[str, Pin], flaws: tuple[Flaw, ...], dataset: str) -> Row:
    here = slot.folder.is_dir()
    seal = read_seal(slot) if here else None
    pin = pins.get(slot.key)
    return Row(
        **task.model_dump(),
        levels=seal.levels if seal else _ALL_LEVELS,
        here=here,
        size=seal.unpacked if seal else (pin.unpacked or pin.size) if pin else None,
        flaws=tuple(flaw for flaw in flaws if flaw.holds(task.id, dataset)),
    )


def _examples() -> Shelf:
    tasks = listed(load_dataset(examples() / "dataset.json"))
    rows = (Row(**task.model_dump(), levels=_ALL_LEVELS, here=True, size=None, flaws=()) for task in tasks)
    return Shelf.of(Edition(name="examples", note="they come with agentctl"), tuple(rows))


def as_list(found: list[Shelf], width: int, *, fetched: bool) -> str:
    """A list for people; with `fetched` of capsules alone that are here."""
    lines = []
    for shelf in found:
        lines.append(_heading(shelf))
        if shelf.note:
            lines += [f"  {line}" for line in wrapped(shelf.note, width - 2)]
        for row in shelf.rows:
            lines += _lines_of(row, width) if row.here or not fetched else []
    return "\n".join(lines)


def _heading(shelf: Shelf) -> str:
    name = f"{shelf.dataset} {shelf.version}".rstrip()
    if not shelf.rows:
        return f"{name}: not here yet (agentctl capsule fetch --dataset {shelf.dataset})"
    here = [row for row in shelf.rows if row.here]
    size = sum(row.size or 0 for row in here)
    return f"{name}: {count(len(shelf.rows), 'capsule')}, {len(here)} here" + (f", {in_words(size)}" if size else "")


def _lines_of(row: Row, width: int) -> list[str]:
    told = [
        padded(row.id, 15),
        padded(row.field, 17),
        padded(row.language, 6),
        padded(" ".join(row.levels), 16),
        padded("here" if row.here else "", 4),
        "" if row.size is None else in_words(row.size),
        "gpu" if row.gpu else "",
    ]
    flaws = [fitted(f"flaw: {flaw.reason}", width - 6) for flaw in row.flaws]
    return [f"  {'  '.join(told)}".rstrip(), *(f"      {flaw}" for flaw in flaws)]


def shown(store: Store, found: Found) -> Shown:
    """What can be told of a task."""
    entry, edition = found.entry, found.edition
    slot = store.slot(edition.collection, entry.capsule_id) if edition else None
    folder = slot.folder if slot else found.file.parent / "capsules" / entry.capsule_id
    seal = read_seal(slot) if slot and folder.is_dir() else None
    fetch = f"agentctl capsule fetch {entry.capsule_id} --dataset {found.dataset}"
    return Shown(
        id=entry.capsule_id,
        title=entry.capsule_title,
        field=entry.field,
        language=entry.language,
        doi=entry.capsule_doi,
        dataset=tuple(_dataset(found)),
        task=entry.task_prompt,
        questions=entry.questions,
        levels=seal.levels if seal else _ALL_LEVELS,
        folder=str(folder) if folder.is_dir() else None,
        seal=seal,
        flaws=tuple(flaw for flaw in known_flaws(store.flaws) if flaw.holds(entry.capsule_id, found.dataset)),
        to_fetch=fetch if slot and not folder.is_dir() else None,
    )


def _dataset(found: Found) -> list[str]:
    """The dataset of a task, in words."""
    edition = found.edition
    if edition is None:
        return [found.dataset or str(found.file)]
    return [f"{edition.name} {edition.version}".rstrip(), *filter(None, (edition.source, edition.licence))]


def as_text(task: Shown, width: int) -> str:
    """A task for people."""
    lines = [f"{task.id} · {task.field} · {task.language}", task.title, task.doi]
    here = [task.folder or f"not here yet{f' ({task.to_fetch})' if task.to_fetch else ''}"]
    if task.seal:
        seal = task.seal
        here.append(f"{count(seal.files, 'file')}, {in_words(seal.unpacked)}, fetched {seal.fetched:%Y-%m-%d}")
        here += [f"from {seal.address}", f"sha256 {seal.sha256}"]
    told = {
        "dataset": list(task.dataset),
        "levels": [" ".join(task.levels)],
        "capsule": here,
        "task": [task.task],
        "asked": list(task.questions),
        "flaws": [f"{flaw.reason} ({flaw.source})" for flaw in task.flaws],
    }
    for name, values in told.items():
        for n, value in enumerate(values):
            for m, line in enumerate(wrapped(value, width - 9, most=12)):
                lines.append(f"{name if n == m == 0 else '':<9}{line}")
    return "\n".join(line for line in lines if line)


class Progress:
    """Shows on a terminal how a download goes; what is noted is always told."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._name = ""
        self._bar = ExitStack()
        self._step: Callable[[int], None] | None = None
        self._at = 0

    @contextmanager
    def about(self, name: str) -> Iterator[None]:
        """What is told now is about `name`."""
        self._name = name
        try:
            yield
        finally:
            self._end()

    def moved(self, done: int, total: int | None) -> None:
        if total is None or not self._out.isatty():
            return
        if self._step is None:
            bar = click.progressbar(length=total, label=f"{self._name} {in_words(total)}", file=self._out, width=30)
            self._step, self._at = self._bar.enter_context(bar).update, 0
        self._step(done - self._at)
        self._at = done

    def note(self, line: str) -> None:
        self._end()
        self._out.write(f"{self._name}: {harmless(line)}\n")
        self._out.flush()

    def _end(self) -> None:
        self._bar.close()
        self._step = None
