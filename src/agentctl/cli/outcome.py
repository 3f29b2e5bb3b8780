"""An attempt's outcome for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import click
from pydantic import ConfigDict, JsonValue, ValidationError

from agentctl.agents.manifest import AttemptResult, read_manifest
from agentctl.agents.task import Provenance, Score
from agentctl.agents.usage import Usage
from agentctl.base.errors import refused
from agentctl.base.jsonio import refuse_constant
from agentctl.benchmarks.runner import Outcome

from .words import count, dollars, seconds, wrapped


def as_json(outcome: Outcome) -> str:
    """The outcome as one JSON document."""
    spec = read_manifest(outcome.record).spec
    tree: dict[str, JsonValue] = {
        "record": str(outcome.record),
        "models": {"main": spec.model.name, **spec.other_names()},
        "result": outcome.result.model_dump(mode="json"),
        "scores": [score.model_dump(mode="json") for score in outcome.scores],
        "report": _report(outcome.record, outcome.result),
    }
    return json.dumps(tree, indent=1, ensure_ascii=False)


def as_text(outcome: Outcome, *, width: int) -> str:
    """The outcome as lines: the score by question, how it ended, what it cost, where the record is."""
    result = outcome.result
    lines = [""]
    for score in outcome.scores:
        lines += score_lines(score, result.provenance, width=width)
    if not outcome.scores:
        lines.append("Not scored: the attempt did not end by the agent's own doing.")
    kind = "" if result.kind == "live" else f" ({result.kind})"
    lines += [
        "",
        *_beside("ended", f"{result.end}{': ' + result.detail if result.detail else ''}{kind}", width),
        f"{'cost':<9}{_cost(result)}{_tokens(result)}",
        f"{'time':<9}{seconds(result.work_seconds)} of work in {count(result.steps, 'step')}"
        + (f", {seconds(result.waited_seconds)} waiting" if result.waited_seconds >= 0.1 else ""),
    ]
    if result.deliverable_problem:
        lines.append(f"{'report':<9}{result.deliverable_problem}")
    elif result.deliverable:
        lines.append(f"{'report':<9}{outcome.record / result.deliverable}")
    lines.append(f"{'record':<9}{outcome.record}")
    return "\n".join(lines)


def score_lines(score: Score, provenance: Sequence[Provenance], *, width: int = 100) -> list[str]:
    """A score as lines: a headline, then each part with what was given and why it is right or wrong."""
    origin = {each.name: each for each in provenance}
    lines = [headline(score)]
    for part in score.parts:
        mark = click.style("✓", fg="green") if part.correct else click.style("✗", fg="red")
        first, *rest = wrapped(part.name, width - 5, most=3)
        lines += [f"  {mark} {first}", *(f"    {line}" for line in rest)]
        found = origin.get(part.name)
        came = f" [{found.kind}{' in ' + found.where if found.where else ''}]" if found and part.given else ""
        told = [(part.given or "no answer") + came, *([] if part.correct else [part.reason])]
        lines += [f"      {line}" for text in told for line in wrapped(text, width - 7, indent="  ")]
    return lines


def _beside(name: str, text: str, width: int) -> list[str]:
    """`text` as a whole beside its `name`."""
    first, *rest = wrapped(text, max(width - 9, 20), most=100)
    return [f"{name:<9}{first}", *(f"{'':<9}{line}" for line in rest)]


def headline(score: Score) -> str:
    """A score on one line."""
    right = sum(part.correct for part in score.parts)
    solved = {True: ", solved", False: ", not solved", None: ""}[score.solved]
    return f"{score.scorer}: {right} of {count(len(score.parts), 'question')} right{solved}"


class AnyScore(Score):
    """A score of any scorer, with what it tells beyond the common."""

    model_config = ConfigDict(extra="allow")


def read_scores(record: Path) -> list[AnyScore]:
    """The scores in a record, by their scorers' names. InputError where one can't be read."""
    found = []
    for file in sorted((record / "scores").glob("*.json")):
        try:
            found.append(AnyScore.model_validate_json(file.read_bytes()))
        except ValidationError as error:
            raise refused(error, file=file, remedy=f"score it anew: agentctl score {record}") from None
    return found


def spent_text(amount: Decimal, usage: Usage) -> str:
    """Dollars that `usage` cost, marked where no provider reported a part of its tokens."""
    return f"about {dollars(amount)}" if usage.estimated and amount else dollars(amount)


def tokens_text(usage: Usage) -> str:
    """Its tokens, marked likewise."""
    return f"{'about ' if usage.estimated else ''}{usage.total_tokens:,} tokens"


def _cost(result: AttemptResult) -> str:
    books = result.spend.books
    if not books.complete:
        return "unknown: the recording holds no usage"
    uncertain = f" + {dollars(books.uncertain)} uncertain" if books.uncertain else ""
    of_cap = f" of {dollars(result.spend.cap)}"
    spent = spent_text(books.spent, books.usage)
    match result.kind:
        case "live":
            return f"{spent}{uncertain}{of_cap}"
        case "replay":
            return f"{spent}{of_cap} when recorded, nothing now"
        case _:
            return f"{spent}{of_cap}"


def _tokens(result: AttemptResult) -> str:
    books = result.spend.books
    calls = sum(role.calls for role in books.by_role.values())
    helpers = "".join(
        f", {dollars(each.cost.total)} of it {role}"
        for role, each in books.by_role.items()
        if role != "main" and each.cost.total
    )
    return f", {count(calls, 'call')}, {tokens_text(books.usage)}{helpers}" if calls else ""


def _report(record: Path, result: AttemptResult) -> JsonValue:
    if result.deliverable is None:
        return None
    text = (record / result.deliverable).read_text(encoding="utf-8", errors="replace")
    try:
        value: JsonValue = json.loads(text, parse_constant=refuse_constant)
    except (ValueError, RecursionError):
        return text
    return value
