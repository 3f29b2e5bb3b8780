"""From what a person types to a task: where the dataset is, where the capsule is, whether a recorded run is shipped."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from agentctl.agents.task import TaskRef
from agentctl.base.errors import InputError
from agentctl.base.paths import portable

from .dataset import load_dataset
from .task import task_digest


@dataclass(frozen=True)
class Located:
    """A task that was found, and the shipped recording of a run of it, if there is one."""

    ref: TaskRef
    recording: str | None


def examples() -> Path:
    """The folder of the shipped examples."""
    return Path(str(files("agentctl").joinpath("examples")))


def locate(name: str, level: str, *, dataset: Path | None = None, capsules: Path | None = None) -> Located:
    """The task that `name`, an id or the beginning of one, means at `level`.

    `dataset` is the file with its entry, `capsules` the folder with the folder of its id; without them the shipped
    examples are looked at. InputError says what was not found, and where it was looked for.
    """
    file = dataset or examples() / "dataset.json"
    entry = load_dataset(file).find(name)
    folder = (capsules or (dataset.parent / "capsules" if dataset else examples() / "capsules")) / entry.capsule_id
    if not folder.is_dir():
        raise InputError(
            "no such capsule folder",
            file=folder,
            field="--capsules",
            remedy="unpack the capsule there, or name the folder that holds it",
        )
    recording = examples() / "recordings" / f"{entry.capsule_id}-{level}"
    shipped = dataset is None and capsules is None and (recording / "events.jsonl").is_file()
    return Located(
        ref=TaskRef(
            benchmark="corebench",
            id=entry.capsule_id,
            level=level,
            dataset=portable(file),
            source=portable(folder),
            digest=task_digest(entry, level, folder),
        ),
        recording=portable(recording) if shipped else None,
    )
