"""Where the answers of a report come from: from what this run made, from what came with the capsule, or from nowhere.

*produced*: a file that this run wrote or changed holds the value. *read*: a file that came with the capsule does, and
none that the run wrote. *stated*: neither. *unknown*: it can't be told, because the value stands everywhere, or may
stand in a file that can't be read as text (a figure, an archive, one that is too big).

What a run wrote counts only as far as it can be a result. These don't: the report and drafts of it (files that hold the
text of a question), program text (its numbers were typed), installed packages and caches, a file that is a copy of one
that came with the capsule, and a changed file whose original holds the value already. Of notebooks the outputs count.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from agentctl.agents.task import Provenance
from agentctl.base.text import clean

from .matching import Holds, finder
from .shipped import Manifest, name_in_json

FILE_LIMIT = 16 << 20  # bytes; a larger file is not searched
TOTAL_LIMIT = 128 << 20  # bytes searched of what the run wrote, and again of what came with the capsule
FILES_LIMIT = 50_000  # files of the run that are looked at

INSTALLED = frozenset(  # folders of installed packages, and caches
    (".git", "__pycache__", "node_modules", "site-packages", "dist-packages", ".venv", "venv", "renv", ".cache")
)
_PROGRAM = frozenset(
    (
        *(".py", ".r", ".rmd", ".rnw", ".qmd", ".jl", ".m", ".do", ".sh", ".bash", ".c", ".h", ".cpp", ".cu", ".java"),
        *(".js", ".ts", ".pl", ".rb", ".go", ".rs", ".sql", ".mk"),
    )
)
_DOCUMENTS = frozenset(  # what a person, or a model that sees, can read a value in
    (
        *(".pdf", ".png", ".jpg", ".jpeg", ".gif", ".tif", ".tiff", ".bmp", ".webp", ".eps", ".ps", ".doc", ".docx"),
        *(".xls", ".xlsx", ".ods", ".odt", ".ppt", ".pptx", ".zip", ".gz", ".bz2", ".xz", ".7z", ".tar", ".tgz"),
        *(".rds", ".rda"),
    )
)
_QUESTION = 12  # characters; a shorter question is no sign of a draft


@dataclass
class _Search:
    """The answers that are still looked for among one kind of files, and what was found."""

    wanted: dict[str, Holds]
    found: dict[str, str] = field(default_factory=dict)  # question to path
    unread: int = 0  # files that may hold an answer but can't be searched
    bytes_left: int = TOTAL_LIMIT

    def missing(self) -> dict[str, Holds]:
        return {question: holds for question, holds in self.wanted.items() if question not in self.found}


def trace(
    report: object, questions: Sequence[str], work: Path, inside: str, manifest: Manifest
) -> tuple[Provenance, ...]:
    """The provenance of each answered question, in the task's order.

    `work` is the workspace's host folder, `inside` its name for the agent. Nothing there is followed or waited for:
    links, devices and pipes are left alone, also when they appear while this runs.
    """
    if not isinstance(report, Mapping):
        return ()
    answered = [question for question in questions if question in report]
    wanted = {question: holds for question in answered if (holds := finder(report[question])) is not None}
    written, shipped = _Search(wanted), _Search(wanted)
    if wanted:
        _search_written(written, questions, work, manifest)
        _search_shipped(shipped, manifest)
    return tuple(_told(question, question in wanted, written, shipped, inside, manifest) for question in answered)


def _told(
    question: str, searched: bool, written: _Search, shipped: _Search, inside: str, manifest: Manifest
) -> Provenance:
    name = clean(question)
    if question in written.found:
        return Provenance(name=name, kind="produced", where=f"{inside}/{written.found[question]}")
    if question in shipped.found:
        return Provenance(name=name, kind="read", where=f"{inside}/{manifest.capsule_id}/{shipped.found[question]}")
    if not searched or written.unread or shipped.unread:
        return Provenance(name=name, kind="unknown")
    return Provenance(name=name, kind="stated")


def _search_written(search: _Search, questions: Sequence[str], work: Path, manifest: Manifest) -> None:
    """Look through what the run wrote, the capsule's results folder first."""
    marks = [question for question in questions if len(question) >= _QUESTION]
    prefix = f"{manifest.capsule_id}/"
    seen = 0
    for in_results in (True, False):
        for path, descriptor, status in _regular_files(work, f"{prefix}results/", in_results):
            seen += 1
            if not search.missing():
                return
            if seen > FILES_LIMIT:
                search.unread += 1
                return
            original = path.removeprefix(prefix) if path.startswith(prefix) else ""
            if not manifest.untouched(original, status) and _can_be_a_result(path):
                _search_file(search, path, descriptor, status.st_size, marks, manifest, original)


def _search_file(
    search: _Search, path: str, descriptor: int, size: int, marks: Sequence[str], manifest: Manifest, original: str
) -> None:
    """Look through one file that the run wrote. `original` is its path in the capsule, if it has one there."""
    data = _read(descriptor, size, search)
    if data is None or _is_binary(data):
        search.unread += 1
        return
    text = _outputs(data) if path.endswith(".ipynb") else data.decode("utf-8", "replace")
    if any(mark in text for mark in marks):
        return
    held = [question for question, holds in search.missing().items() if holds(text)]
    if held and not manifest.holds_copy_of(data):
        before = _original(manifest, original)
        search.found |= {question: path for question in held if not search.wanted[question](before)}


def _search_shipped(search: _Search, manifest: Manifest) -> None:
    """Look through what came with the capsule, as it was before the run, its results first."""
    for path, file in sorted(manifest.files.items(), key=lambda entry: not entry[0].startswith("results/")):
        missing = search.missing()
        if not missing:
            return
        document = PurePosixPath(path).suffix.lower() in _DOCUMENTS
        if file.size > min(FILE_LIMIT, search.bytes_left):
            search.unread += 1
            continue
        try:
            data = (manifest.source / path).read_bytes()
        except OSError:  # gone since, or its name is not UTF-8
            search.unread += 1
            continue
        search.bytes_left -= len(data)
        if document or _is_binary(data):
            search.unread += document
            continue
        text = data.decode("utf-8", "replace")
        search.found |= {question: path for question, holds in missing.items() if holds(text)}


def _regular_files(work: Path, prefix: str, within: bool) -> Iterator[tuple[str, int, os.stat_result]]:
    """Path, open descriptor and status of each regular file below `work` whose path begins (or not) with `prefix`.

    Folders and files are opened relative to the folder that holds them, without following links: what swaps a folder
    for a link meanwhile gains nothing.
    """
    for folder, folders, names, descriptor in os.fwalk(work, follow_symlinks=False):
        folders[:] = sorted(name for name in folders if name not in INSTALLED)
        place = Path(folder).relative_to(work)
        for name in sorted(names):
            path = name_in_json(str(place / name))
            if path.startswith(prefix) is not within:
                continue
            try:
                file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=descriptor)
            except OSError:  # a link, gone, or unreadable
                continue
            try:
                status = os.fstat(file)
                if stat.S_ISREG(status.st_mode):
                    yield path, file, status
            finally:
                os.close(file)


def _can_be_a_result(path: str) -> bool:
    place = PurePosixPath(path)
    return place.suffix.lower() not in _PROGRAM and place.name.casefold() != "report.json"


def _read(descriptor: int, size: int, search: _Search) -> bytes | None:
    """The content of a file; None where it is over the limits."""
    if size > min(FILE_LIMIT, search.bytes_left):
        return None
    search.bytes_left -= size
    with os.fdopen(os.dup(descriptor), "rb") as file:
        return file.read(FILE_LIMIT)


def _is_binary(data: bytes) -> bool:
    return b"\0" in data[:8192] or data.startswith((b"%PDF", b"%!PS", b"PK\x03\x04", b"\x1f\x8b", b"BZh", b"\xfd7zXZ"))


def _original(manifest: Manifest, path: str) -> str:
    """The text of the capsule's own version of a file; empty where it has none that can be searched."""
    if path not in manifest.files or manifest.files[path].size > FILE_LIMIT:
        return ""
    try:
        return (manifest.source / path).read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""


def _outputs(data: bytes) -> str:
    """What the cells of a notebook put out, as text; the whole file where it is no notebook."""
    try:
        outputs = [output for cell in json.loads(data)["cells"] for output in cell.get("outputs", [])]
        parts = [part for output in outputs for part in (output.get("text", ""), *output.get("data", {}).values())]
        return "\n".join("".join(part) for part in parts if isinstance(part, str | list))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return data.decode("utf-8", "replace")
