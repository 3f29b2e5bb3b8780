"""Is a report.json what its task asks for? Looks at form alone: no gold answer, and no type of one, is known here.

Errors are what graders can't read (or what can't be an answer); warnings are what often costs points. Nothing is ever
written, renamed or deleted.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from agentctl.base.deliverable import Finding, Severity
from agentctl.base.errors import InputError
from agentctl.base.text import clean, head
from agentctl.base.values import Frozen

from .host_files import Files, HostFiles
from .report_answers import as_scored, difference, near_key, warnings_on
from .report_json import Members, NotJson, literals, name_of, parse, plain
from .sandbox.protocol import FileInfo, FileKind, PathRefused

SIZE_LIMIT = 1 << 20  # bytes; a real report has a few hundred
FINDINGS_LIMIT = 60  # a report with more faults than that is told of the first ones
_DEPTH = 5  # levels below the right folder that are looked through for a report in the wrong place
_ENTRIES = 10_000
_ELSEWHERE = 5  # places named


class ReportCheck(Frozen):
    """What a check found. `numbers` holds, for each answered question, the number that graders read in it, if any."""

    findings: tuple[Finding, ...]
    questions: int  # how many were asked
    missing: tuple[str, ...]  # questions without an answer, in the task's order
    numbers: dict[str, float]
    found_elsewhere: tuple[str, ...] = ()  # paths of reports in other places than the right one

    @property
    def valid(self) -> bool:
        """Whether graders can read it and each question has an answer."""
        return all(finding.severity is not Severity.ERROR for finding in self.findings)


def schema_of(questions: Sequence[str]) -> dict[str, Any]:
    """JSON Schema of a report on `questions`. All take the same types: it gives away nothing of the answers."""
    answer = {"type": ["number", "string", "boolean", "array"]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": dict.fromkeys(questions, answer),
        "required": list(questions),
    }


def check_report(data: bytes | None, questions: Sequence[str]) -> ReportCheck:
    """Check the bytes of a report (None: there is none) against the questions, in the task's order.

    Without questions only the form is checked. No input makes it raise.
    """
    if data is None:
        return not_usable("There is no report yet.", questions)
    if len(data) > SIZE_LIMIT:
        return not_usable(too_big(len(data)), questions)
    try:
        members = parse(data)
    except NotJson as problem:
        return not_usable(str(problem), questions)
    if not isinstance(members, Members):
        return not_usable(
            f"The top level is {name_of(members)}; it must be one JSON object with the questions as keys.", questions
        )
    answers = {key: plain(value) for key, value in members}
    missing = tuple(question for question in questions if question not in answers)
    findings = [
        *_duplicates(members),
        *_bad_literals(members),
        *_keys(answers, questions, missing),
        *_schema(answers, questions),
        *_values(answers, questions),
    ]
    return ReportCheck(
        findings=_limited(findings),
        questions=len(questions),
        missing=_cleaned(missing),
        numbers=_numbers(answers, questions),
    )


def not_usable(message: str, questions: Sequence[str], *more: str, elsewhere: Sequence[str] = ()) -> ReportCheck:
    """The check of a report that can't be read at all: all questions are missing."""
    findings = tuple(Finding(severity=Severity.ERROR, message=clean(text)) for text in (message, *more))
    return ReportCheck(
        findings=findings,
        questions=len(questions),
        missing=_cleaned(questions),
        numbers={},
        found_elsewhere=_cleaned(elsewhere),
    )


def _cleaned(texts: Sequence[str]) -> tuple[str, ...]:
    return tuple(clean(text) for text in texts)


def too_big(size: int) -> str:
    """The message for a report of `size` bytes, which is not read."""
    return f"It has {size:,} bytes; a report has at most {SIZE_LIMIT:,}. Only the bare answers belong in it."


def _finding(severity: Severity, message: str, where: str, suggestion: str | None = None) -> Finding:
    return Finding(
        severity=severity,
        message=clean(message),
        where=head(clean(where), 1000),
        suggestion=None if suggestion is None else clean(suggestion),
    )


def _duplicates(members: Members) -> Iterator[Finding]:
    times: dict[str, int] = {}
    for key, _ in members:
        times[key] = times.get(key, 0) + 1
    for key, count in times.items():
        if count > 1:
            yield _finding(Severity.ERROR, f"This key stands {count} times; keep one.", key)


def _bad_literals(members: Members) -> Iterator[Finding]:
    for key, value in members:
        for text in literals(value):
            yield _finding(Severity.ERROR, f"{text} is not a JSON number: write a finite number.", key)


def _keys(answers: dict[str, Any], questions: Sequence[str], missing: Sequence[str]) -> Iterator[Finding]:
    """Findings on missing questions and unknown keys; an unknown key that is nearly a missing question names it."""
    if not questions:
        return
    taken: set[str] = set()
    for key in [key for key in answers if key not in questions][:FINDINGS_LIMIT]:
        near = near_key(key, [question for question in missing if question not in taken])
        if near is None:
            yield _finding(Severity.WARNING, "This key is none of the questions; it is not scored.", key)
        else:
            taken.add(near)
            yield _finding(Severity.ERROR, f"This key differs from the question{difference(key, near)}.", key, near)
    for question in missing:
        if question not in taken:
            yield _finding(Severity.ERROR, "No answer yet. A rough answer is worth more than none.", question)


def _schema(answers: dict[str, Any], questions: Sequence[str]) -> Iterator[Finding]:
    """Findings on values that no question can have."""
    from jsonschema import Draft202012Validator

    validator = Draft202012Validator(schema_of(questions or list(answers)))
    for error in validator.iter_errors(answers):
        if error.validator == "type" and error.path:
            key = str(error.path[0])
            what = name_of(answers[key])
            yield _finding(
                Severity.ERROR, f"The value is {what}, which is never an answer: give a bare number or text.", key
            )


def _values(answers: dict[str, Any], questions: Sequence[str]) -> Iterator[Finding]:
    """Warnings on the answers that count."""
    for key, value in answers.items():
        if key in questions or not questions:
            for message in warnings_on(key, value):
                yield _finding(Severity.WARNING, message, key)


def _numbers(answers: dict[str, Any], questions: Sequence[str]) -> dict[str, float]:
    """The number that graders read in each answer, where they read one."""
    numbers = {}
    for key, value in answers.items():
        number = as_scored(value)
        if (key in questions or not questions) and isinstance(number, int | float) and not isinstance(number, bool):
            numbers[clean(key)] = float(number)
    return numbers


def _limited(findings: list[Finding]) -> tuple[Finding, ...]:
    """The findings, errors first, at most FINDINGS_LIMIT and a last one that says how many more there are."""
    errors_first = sorted(findings, key=lambda finding: finding.severity is Severity.WARNING)
    if len(errors_first) <= FINDINGS_LIMIT:
        return tuple(errors_first)
    more = Finding(
        severity=Severity.WARNING, message=f"{len(errors_first) - FINDINGS_LIMIT} more findings are left out."
    )
    return (*errors_first[:FINDINGS_LIMIT], more)


def check_at(files: Files, path: str, questions: Sequence[str]) -> ReportCheck:
    """Check the report that belongs at `path`. Its size is looked at before it is read.

    Where there is none: says which files nearby were probably meant.
    """
    try:
        info = files.stat(path)
    except FileNotFoundError:
        return _absent(files, path, questions, "There is no report yet.")
    except PathRefused as refusal:
        return not_usable(f"It can't be used: {refusal}.", questions)
    if info.kind is FileKind.FOLDER:
        return _absent(files, path, questions, "This is a folder; the report must be a file of that name.")
    if info.kind is not FileKind.FILE:
        return not_usable("This is a link or a device; the report must be a regular file.", questions)
    if info.size > SIZE_LIMIT:
        return not_usable(too_big(info.size), questions)
    try:
        data = files.read(path, limit=SIZE_LIMIT + 1)
    except (OSError, PathRefused) as error:
        return not_usable(f"It can't be read: {error}.", questions)
    return check_report(data, questions)


def validate_file(path: Path, questions: Sequence[str] = ()) -> ReportCheck:
    """Check a report on the host, as `agentctl validate` does. Without questions only its form is checked.

    InputError if not even its folder exists.
    """
    if not path.parent.is_dir():
        raise InputError("no such folder", file=path.parent)
    target = path.resolve() if path.is_symlink() and path.exists() else path.absolute()
    return check_at(HostFiles(), str(target), questions)


def _absent(files: Files, path: str, questions: Sequence[str], message: str) -> ReportCheck:
    folder, name = posixpath.split(path)
    try:
        near = files.list(folder)
        deep = files.list(folder, depth=_DEPTH, limit=_ENTRIES)
    except (OSError, PathRefused):
        near, deep = [], []
    elsewhere = [
        posixpath.relpath(info.path, folder)
        for info in deep
        if info.kind is FileKind.FILE
        and posixpath.basename(info.path) == name
        and posixpath.normpath(info.path) != posixpath.normpath(path)
    ][:_ELSEWHERE]
    found = [f"There is one at {place}, which is the wrong place: it belongs at {path}." for place in elsewhere]
    return not_usable(message, questions, *found, *_misnamed(near, name), elsewhere=elsewhere)


def _misnamed(entries: Sequence[FileInfo], name: str) -> Iterator[str]:
    """What to say of files in the right folder whose name is nearly `name`."""
    for info in entries:
        found = posixpath.basename(info.path)
        if info.kind is not FileKind.FILE or found == name:
            continue
        if found.casefold() == name.casefold():
            yield f"{found} differs from {name} by upper and lower case: name it {name}."
        elif found.casefold().startswith(f"{name.casefold()}."):
            yield f"{found} has a second extension: name it {name}."
        elif found.casefold().strip() == name.casefold():
            yield f"{found!r} has blanks in its name: name it {name}."
