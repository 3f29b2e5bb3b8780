"""`agentctl show`: a record, read back."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from agentctl.agents.events import (
    Carried,
    Condensed,
    Ended,
    Event,
    Failed,
    MessageAdded,
    MoneyNoted,
    NetworkRefused,
    Note,
    Ran,
    Replied,
    Summarised,
    WentOn,
)
from agentctl.agents.manifest import AttemptResult, deliverable_change, read_result
from agentctl.agents.reading import RecordReader
from agentctl.agents.usage import Usage
from agentctl.base.errors import AgentctlError
from agentctl.base.messages import Call, ImageRef, Message, Opaque, Result, Text
from agentctl.base.text import cut
from agentctl.benchmarks.keeping import DELIVERABLE, MANIFEST

from .live import terminal
from .outcome import headline, read_scores, spent_text, tokens_text
from .words import count, dollars, folded, harmless, seconds


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("record", type=click.Path(path_type=Path))
@click.option("--request", type=int, metavar="N", help="Request N as it was sent, checked by its digest.")
@click.option("--full", is_flag=True, help="Messages whole instead of their first lines.")
@click.option("--json", "json_out", is_flag=True, help="One JSON document on standard output.")
def command(record: Path, request: int | None, full: bool, json_out: bool) -> None:
    """Show what RECORD holds: its messages, what was run, how it ended and what it cost."""
    reader = RecordReader(record)
    if request is not None:
        _show_request(reader, request)
        return
    if json_out:
        result = read_result(record)
        document = {
            "manifest": reader.manifest.model_dump(mode="json"),
            "events": [
                event.model_dump(mode="json", exclude_defaults=True) | {"t": event.t} for event in reader.events
            ],
            "result": result.model_dump(mode="json") if result else None,
            "scores": [score.model_dump(mode="json") for score in read_scores(record)],
            "deliverable_change": deliverable_change(record, result) if result else None,
        }
        click.echo(json.dumps(document, ensure_ascii=False, indent=1))
        return
    text = "\n".join(_lines(reader, limit=1_000_000 if full else 600))
    # A program that reads on wants lines as they are.
    click.echo("\n".join(folded(text, terminal(sys.stdout)[0])) if sys.stdout.isatty() else harmless(text))


def _show_request(reader: RecordReader, n: int) -> None:
    rebuilt = reader.rebuild(n)
    click.echo(rebuilt.body, nl=sys.stdout.isatty())  # piped on, they are the bytes and nothing else
    if not rebuilt.same:
        raise AgentctlError(
            f"request {n} as rebuilt differs from what was sent: its digest is not {rebuilt.sent.digest[:12]}...",
            file=reader.folder,
            remedy="the record was changed, or was written by another version",
        )
    print(f"request {n}: {len(rebuilt.body):,} bytes, as sent (digest {rebuilt.sent.digest[:12]}...)", file=sys.stderr)


def _lines(reader: RecordReader, *, limit: int) -> list[str]:
    manifest = reader.manifest
    spec = manifest.spec
    lines = [
        f"{spec.task.id} · {spec.task.level} · {spec.scaffold.label} · {spec.model.name} · {manifest.kind}"
        + "".join(f" · {role}: {name}" for role, name in spec.other_names().items()),
        f"{manifest.created:%Y-%m-%d %H:%M} · sandbox {manifest.fingerprint.kind}, network "
        f"{manifest.fingerprint.network} · agentctl {manifest.software.agentctl} · key {manifest.attempt_key[:12]}",
        "",
    ]
    ended = None
    for event in reader.events:
        match event:
            case MessageAdded():
                aside = ", aside" if event.aside else ""
                told = _told(event.message, limit // 4 if aside else limit)
                lines += [f"[{event.n}] {event.message.role}{aside}", *_indented(told)]
            case Ran():
                code = f", exit {event.exit_code}" if event.exit_code is not None else ""
                lines.append(f"    {event.call} {event.name}: {event.status}{code}, {seconds(event.seconds)}")
            case Ended():
                ended = event
            case _:
                lines += [f"    ! {line}" for line in _aside(event).splitlines()]
    books = reader.books()
    result = read_result(reader.folder)
    lines.append("")
    if ended is None:
        lines.append("not ended: the process was killed, or is still at work")
    else:
        lines.append(f"ended {ended.end}{': ' + ended.detail if ended.detail else ''}")
    usage = sum((event.came.usage for event in reader.events if isinstance(event, Replied)), Usage())
    lines.append(
        f"spent {spent_text(books.spent, usage)}, uncertain {dollars(books.uncertain)}, "
        f"{count(len(reader.requests), 'request')}, {tokens_text(usage)}"
    )
    return [*lines, *_scored(reader.folder, result), *_kept(reader.folder)]


def _scored(record: Path, result: AttemptResult | None) -> list[str]:
    """What the scorers said of it, and whether that is still what it holds."""
    if result is None:
        return ["no result"]
    change = deliverable_change(record, result)
    scores = read_scores(record)
    told = [headline(score) for score in scores] or ["not scored" + ("" if result.infrastructure else " yet")]
    return [*told, *([f"changed since: {change}"] if change else [])]


def _kept(record: Path) -> list[str]:
    """What of the workspace is in the record."""
    if not (record / MANIFEST).exists():
        return []
    told = json.loads((record / MANIFEST).read_bytes())
    left_out = [
        each for each in told["files"]
        if each["state"] in ("made", "changed") and not each.get("kept") and each.get("why") != DELIVERABLE
    ]  # fmt: skip
    rest = f", but for {count(len(left_out), 'file')} that it made or changed: see {MANIFEST}" if left_out else ""
    return [f"kept {count(told['kept_files'], 'file')} of the workspace, {told['kept_bytes']:,} bytes{rest}"]


def _aside(event: Event) -> str:
    """What a reader should know of an event that is neither a message nor a call."""
    match event:
        case Failed(failed=failed):
            lost = "; it may have been billed" if failed.lost else ""
            return f"request {failed.n} failed: {failed.fault}: {' '.join(failed.words.split())}{lost}"
        case MoneyNoted(noted=noted):
            return f"{noted.what}: {noted.words}"
        case NetworkRefused(refusal=refusal):
            return f"network: {refusal.words}"
        case Note():
            return f"{event.kind}: {event.text}"
        case Condensed():
            return event.words
        case Summarised():
            return f"step {event.step} in short: {event.text}" + (f" ({event.problem})" if event.problem else "")
        case Carried():
            uncertain = f" and {dollars(event.uncertain)} uncertain" if event.uncertain else ""
            time = f", in {seconds(event.seconds)} of work" if event.seconds else ""
            return f"goes on from {event.record}, where {dollars(event.spent)} were spent{uncertain}{time}"
        case WentOn():
            return f"another attempt went on from here: {event.record}"
        case _:
            return ""


def _told(message: Message, limit: int) -> list[str]:
    told: list[str] = []
    for part in message.parts:
        match part:
            case Text():
                told.append(cut(part.text, limit))
            case Call():
                told.append(f"-> {part.name}({part.raw or json.dumps(part.arguments, ensure_ascii=False)})"[:limit])
            case Result():
                told.append(f"<- {part.call_id} {part.status}")
                told += [cut(each.text, limit) for each in part.parts if isinstance(each, Text)]
            case ImageRef():
                told.append(f"(image {part.width}x{part.height}, {part.digest[:12]})")
            case Opaque():
                told.append(f"({part.provider}: {part.field})")
    return told


def _indented(texts: list[str]) -> list[str]:
    return [f"    {line}" for text in texts for line in text.splitlines()]
