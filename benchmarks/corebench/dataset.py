"""CORE-Bench's dataset files: a JSON list, one entry a capsule, with the recorded answers of its runs."""

from __future__ import annotations

import difflib
import json
import math
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, JsonValue, ValidationError, model_validator

from agentctl.base.errors import InputError
from agentctl.base.jsonio import StrictJsonError, digest, refuse_constant
from agentctl.base.text import clean, head
from agentctl.base.values import Frozen

from .store.encrypted import decrypted, is_encrypted

DATASET_FILES = frozenset({".json", ".gpg", ".asc"})
SIZE_LIMIT = 64 << 20  # bytes; the benchmark's own files have some 100 kB

_SHAPE = "see the benchmark's dataset files: a JSON list of objects with capsule_id, task_prompt, results, ..."


class Level(StrEnum):
    """How much an agent is given: the finished results, the way to rebuild them, or the code and data alone."""

    EASY = "easy"
    MEDIUM = "medium"
    HARD = "hard"

    @classmethod
    def named(cls, name: str) -> Level:
        """The level of that name, or InputError."""
        try:
            return cls(name)
        except ValueError:
            raise InputError(f"no level {name!r}", field="level", remedy=f"one of {', '.join(cls)}") from None


class Capsule(Frozen, strict=True):
    """One entry: a paper's capsule, what is asked of it, and the recorded runs (gold: never shown to an agent).

    The keys are the benchmark's. Each run in `results` maps every question to its answer: a number, a text or a list.
    """

    field: str
    language: str
    capsule_title: str
    capsule_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]  # names its folder, too
    capsule_doi: str
    task_prompt: str
    results: Annotated[tuple[dict[str, JsonValue], ...], Field(min_length=1)]
    gpu: bool = False  # only in some harnesses' copies of the dataset

    @property
    def questions(self) -> tuple[str, ...]:
        """The questions in the order in which they are shown."""
        return tuple(self.results[0])

    @model_validator(mode="after")
    def _runs_agree(self) -> Capsule:
        first = self.results[0]
        if not first:
            raise ValueError("results[0] asks no question")
        for number, run in enumerate(self.results):
            if run.keys() != first.keys():
                odd = sorted(run.keys() ^ first.keys())[0]
                raise ValueError(f"results[{number}] and results[0] have different questions: {head(odd, 80)!r}")
            for question, answer in run.items():
                where = f"results[{number}][{head(question, 80)!r}]"
                if _kind(answer) is None:
                    raise ValueError(f"{where} must be a finite number, a text or a list")
                if _kind(answer) != _kind(first[question]):
                    raise ValueError(f"{where} is {_kind(answer)}, but {_kind(first[question])} in results[0]")
        return self


class Dataset(Frozen):
    """All capsules of a dataset file, in its order."""

    path: Path
    digest: str  # SHA-256 of the file as it is, encrypted or not
    capsules: tuple[Capsule, ...]

    def find(self, prefix: str) -> Capsule:
        """The capsule with this id, or the only one whose id begins so. InputError lists what was probably meant."""
        exact = [capsule for capsule in self.capsules if capsule.capsule_id == prefix]
        begins = exact or [capsule for capsule in self.capsules if capsule.capsule_id.startswith(prefix)]
        if len(begins) == 1:
            return begins[0]
        if begins:
            raise InputError(f"{prefix!r} fits {len(begins)} capsules: {_some(begins)}", file=self.path)
        ids = [capsule.capsule_id for capsule in self.capsules]
        close = difflib.get_close_matches(head(prefix, 200), ids, n=3)
        remedy = f"did you mean {' or '.join(close)}?" if close else f"there are: {_some(self.capsules)}"
        raise InputError(f"no capsule {head(clean(prefix), 100)!r}", file=self.path, remedy=remedy)


def load_dataset(path: Path, *, passphrase: str | None = None) -> Dataset:
    """The dataset in `path`. InputError names file, entry, field and remedy for whatever is not as it should be.

    An encrypted file is opened, in memory, by `passphrase` or else by one that was published or kept with it.
    """
    data = _read(path)
    clear = decrypted(data, path, passphrase=passphrase) if is_encrypted(data) else data
    try:
        entries = json.loads(clear.decode("utf-8-sig"), parse_constant=refuse_constant, object_pairs_hook=_unique_keys)
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8 at byte {error.start}", file=path) from None
    except json.JSONDecodeError as error:
        raise InputError(f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}", file=path) from None
    except (StrictJsonError, RecursionError, ValueError) as error:
        problem = "nested too deeply" if isinstance(error, RecursionError) else clean(str(error))
        raise InputError(f"not usable JSON: {problem}", file=path) from None
    if not isinstance(entries, list):
        raise InputError("the top level must be a list of capsules", file=path, remedy=_SHAPE)
    if not entries:
        raise InputError("it holds no capsule", file=path, remedy=_SHAPE)
    capsules: dict[str, Capsule] = {}
    for number, entry in enumerate(entries):
        capsule = _capsule(entry, number, path)
        if capsule.capsule_id in capsules:
            raise InputError(
                f"{capsule.capsule_id} stands twice", file=path, field=f"entry {number}", remedy="each id only once"
            )
        capsules[capsule.capsule_id] = capsule
    return Dataset(path=path, digest=digest(data), capsules=tuple(capsules.values()))


def _read(path: Path) -> bytes:
    try:
        if not path.is_file():
            problem = "not a regular file" if path.exists() else "no such dataset file"
            raise InputError(problem, file=path, remedy="name the dataset file with --dataset")
        if path.stat().st_size > SIZE_LIMIT:
            raise InputError(f"has more than {SIZE_LIMIT >> 20} MB; that is no dataset file", file=path)
        return path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a null byte in the name
        raise InputError(f"can't read the dataset: {error}", file=path) from None


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise StrictJsonError(f"the key {head(twice, 80)!r} stands twice in one object", twice)
    return members


def _capsule(entry: object, number: int, path: Path) -> Capsule:
    """One entry, typed. InputError names its number and, where it has one, its id."""
    name = f"entry {number}"
    if not isinstance(entry, dict):
        raise InputError("must be an object", file=path, field=name, remedy=_SHAPE)
    if isinstance(entry.get("capsule_id"), str):
        name += f" ({head(clean(entry['capsule_id']), 60)})"
    known = set(Capsule.model_fields)
    missing, unknown = sorted(known - {"gpu"} - entry.keys()), sorted(entry.keys() - known)
    if missing or unknown:
        parts = [f"lacks {', '.join(missing)}"] if missing else []
        parts += [f"has unknown keys: {head(clean(', '.join(unknown)), 200)}"] if unknown else []
        raise InputError(
            "; ".join(parts), file=path, field=name, remedy=f"the keys are {', '.join(Capsule.model_fields)}"
        )
    results = entry["results"]
    try:
        json.dumps(entry, ensure_ascii=False).encode("utf-8")
        return Capsule.model_validate({**entry, "results": tuple(results) if isinstance(results, list) else results})
    except UnicodeEncodeError:
        raise InputError("holds half a character (a lone surrogate)", file=path, field=name) from None
    except RecursionError:
        raise InputError("is nested too deeply", file=path, field=name) from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"][:2])
        raise InputError(first["msg"].removeprefix("Value error, "), file=path, field=f"{name}{place}") from None


def _kind(answer: JsonValue) -> str | None:
    """What sort of answer this is; None for one that no report can match."""
    if isinstance(answer, float) and not math.isfinite(answer):
        return None
    if isinstance(answer, int) and abs(answer) >= 2**1023:
        return None
    kinds = {bool: "a number", int: "a number", float: "a number", str: "a text", list: "a list"}
    return kinds.get(type(answer))


def _some(capsules: tuple[Capsule, ...] | list[Capsule]) -> str:
    """The first ids, and how many more there are."""
    ids = [capsule.capsule_id for capsule in capsules]
    more = f" and {len(ids) - 8} more" if len(ids) > 8 else ""
    return ", ".join(ids[:8]) + more
