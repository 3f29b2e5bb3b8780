"""The first and the last word of a record: what went into an attempt, and how it ended."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeVar

from pydantic import Field, JsonValue, ValidationError, model_validator

import agentctl
from agentctl.base.errors import InputError, refused
from agentctl.base.jsonio import canonical, digest, read_json
from agentctl.base.values import Frozen, Usd
from agentctl.tools.sandbox.protocol import Fingerprint

from .books import Books
from .ends import End
from .models.protocol import Kind
from .price_table import TableOrigin
from .spec import AttemptSpec
from .task import Provenance

T = TypeVar("T", bound=Frozen)

_SOURCES = ("base", "prompts", "tools", "agents", "benchmarks/corebench/staging.py")


class PriceRecord(Frozen):
    """Which prices were used: entries disappear from tables, and prices change."""

    origin: TableOrigin
    schedules: dict[str, JsonValue]  # of the main model, as `agents.pricing.Price`; empty when it is free
    helpers: dict[str, dict[str, JsonValue]] = Field(default_factory=dict)  # of models by role, where it is another

    def of(self, role: str) -> dict[str, JsonValue]:
        """The schedules of the model that was asked in `role`."""
        return self.helpers.get(role, self.schedules)


class Software(Frozen):
    """What ran the attempt."""

    agentctl: str
    commit: str | None  # of the checkout it ran from, where it did
    dirty: bool | None
    python: str
    platform: str
    packages: dict[str, str]


class Manifest(Frozen):
    """`manifest.json`."""

    schema_version: int = 1
    record_id: str = ""  # the record's own, which its copies share; records of earlier releases have none
    attempt_key: str
    kind: Kind
    created: datetime
    spec: AttemptSpec
    prompt_digest: str
    source_digest: str
    fingerprint: Fingerprint
    prices: PriceRecord
    software: Software

    @model_validator(mode="before")
    @classmethod
    def _as_it_was_then(cls, data: Any) -> Any:
        """A record of the time when no reply was streamed does not say so. Its requests are built as they were."""
        match data:
            case {"spec": {"model": dict(model)}} if "stream" not in model:
                model["stream"] = False
        return data


class Spend(Frozen):
    """An attempt's books at its end, those of the record it went on from included."""

    cap: Usd
    books: Books


class AttemptResult(Frozen):
    """`result.json`."""

    schema_version: int = 1
    attempt_key: str
    kind: Kind
    end: End
    detail: str
    infrastructure: bool  # the end was not the agent's doing: a new try is due
    steps: int
    work_seconds: float
    waited_seconds: float
    spend: Spend
    deliverable: str | None = Field(pattern=r"^[^./\x00][^/\x00]*$")  # plain name of a file in the record
    deliverable_digest: str | None
    deliverable_problem: str | None
    provenance: tuple[Provenance, ...] = ()


def attempt_key(spec: AttemptSpec, *, prompt_digest: str, fingerprint: Fingerprint) -> str:
    """SHA-256 over all that an attempt's outcome may depend on. Same key: same attempt."""
    parts: dict[str, Any] = {
        "prompt": prompt_digest,
        "scaffold": spec.scaffold.digest,
        "source": source_digest(),
        "model": spec.model.model_dump(mode="json"),
        "helpers": {role: model.model_dump(mode="json") for role, model in spec.other_models().items()},
        "task": spec.task.digest,
        "level": spec.task.level,
        "sandbox": spec.sandbox.model_dump(mode="json", exclude={"rootfs"}),  # the fingerprint tells what is in it
        "fingerprint": fingerprint.model_dump(mode="json"),
        "limits": spec.limits.model_dump(mode="json"),
        "seed": spec.seed,
        "repeat": spec.repeat,
    }
    return digest(canonical(parts))


@cache
def source_digest() -> str:
    """SHA-256 over the source of all that an attempt is made of."""
    root = files(agentctl)
    lines = [
        f"{name} {digest(entry.read_bytes())}"
        for source in _SOURCES
        for name, entry in _source_files(root.joinpath(source), source)
    ]
    return digest("\n".join(lines).encode())


def _source_files(entry: Traversable, name: str) -> Iterator[tuple[str, Traversable]]:
    if entry.is_dir():
        for inner in sorted(entry.iterdir(), key=lambda each: each.name):
            yield from _source_files(inner, f"{name}/{inner.name}")
    elif name.endswith((".py", "/hosts.yaml")) or name.startswith("prompts/history/"):  # hosts allowed, words sent
        yield name, entry


@cache
def software() -> Software:
    """What runs this attempt."""
    commit, dirty = _commit()
    return Software(
        agentctl=agentctl.__version__,
        commit=commit,
        dirty=dirty,
        python=platform.python_version(),
        platform=platform.platform(),
        packages={name: version(name) for name in ("litellm", "pydantic", "pexpect", "urllib3")},
    )


def _commit() -> tuple[str | None, bool | None]:
    folder = Path(agentctl.__file__).resolve().parent
    if not (folder.parents[1] / ".git").exists():
        return None, None
    try:
        told = subprocess.run(
            ["git", "-C", str(folder), "status", "--porcelain=v2", "--branch", "--untracked-files=no"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        ).stdout.splitlines()
    except (OSError, subprocess.SubprocessError):
        return None, None
    head = next((line.split()[-1] for line in told if line.startswith("# branch.oid")), None)
    return head, any(not line.startswith("#") for line in told)


def now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


def read_manifest(record: Path) -> Manifest:
    """The manifest of the record folder `record`. InputError names file and field."""
    if record.is_dir() and not (record / "manifest.json").exists():
        raise InputError("no record: it holds no manifest.json", file=record, remedy="give a folder that `solve` made")
    return _read(Manifest, record / "manifest.json", record)


def read_result(record: Path) -> AttemptResult | None:
    """The result of a record; None while it has none."""
    path = record / "result.json"
    return _read(AttemptResult, path, record) if path.exists() else None


def deliverable_change(record: Path, result: AttemptResult) -> str | None:
    """What became of the deliverable in `record` since the attempt ended; None where it is the one that was left."""
    if result.deliverable is None or result.deliverable_digest is None:
        return None
    file = record / result.deliverable
    if not file.is_file():
        return f"{result.deliverable} is gone"
    now = digest(file.read_bytes())
    if now == result.deliverable_digest:
        return None
    was = result.deliverable_digest
    return f"{result.deliverable} is not the one that the run left: its SHA-256 is {now[:12]}…, was {was[:12]}…"


def _read(model: type[T], path: Path, record: Path) -> T:
    if not record.is_dir():
        raise InputError("no such record", file=record, remedy="give the folder that `solve` named at its end")
    try:
        return model.model_validate_json(canonical(read_json(path, what="part of a record")))
    except ValidationError as error:
        raise refused(error, file=path) from None
