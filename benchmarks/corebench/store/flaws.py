"""What is known to be wrong with tasks, as data: a shipped list, and the user's own in the store's `flaws.yaml`."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from agentctl.base.errors import InputError, refused
from agentctl.base.values import Frozen


class Flaw(Frozen):
    """One thing that is wrong with a task, and who says so."""

    task: Annotated[str, Field(min_length=1)]
    reason: Annotated[str, Field(min_length=1)]
    source: Annotated[str, Field(min_length=1)]
    datasets: tuple[str, ...] = ()  # names of the datasets it holds in; none: in all

    def holds(self, task: str, dataset: str | None) -> bool:
        """Whether it is about `task` in the dataset of that name. A file without a name may be any dataset."""
        return self.task == task and (not self.datasets or dataset is None or dataset in self.datasets)


def known_flaws(own: Path) -> tuple[Flaw, ...]:
    """The shipped list and what the file `own` adds, where there is one. InputError names what is odd in it."""
    shipped = _parsed(files(__package__).joinpath("flaws.yaml").read_text(encoding="utf-8"), Path("flaws.yaml"))
    try:
        text = own.read_text(encoding="utf-8")
    except FileNotFoundError:
        return shipped
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"can't be read: {error}", file=own) from None
    return shipped + _parsed(text, own)


def _parsed(text: str, file: Path) -> tuple[Flaw, ...]:
    import yaml

    try:
        return TypeAdapter(tuple[Flaw, ...]).validate_python(yaml.safe_load(text) or [])
    except yaml.YAMLError as error:
        raise InputError(f"not YAML: {error}", file=file) from None
    except ValidationError as error:
        remedy = "a list of entries with task, reason, source and, if not for all, datasets"
        raise refused(error, file=file, remedy=remedy) from None
