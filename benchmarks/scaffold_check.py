"""Looks at a scaffold before an agent gets it: whether it can work, and whether its texts give answers away."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agentctl.agents.coherence import check_coherent
from agentctl.agents.scaffold import Scaffold
from agentctl.agents.spec import Limits
from agentctl.agents.task import TaskRef
from agentctl.agents.toolbox import make_tools
from agentctl.base.errors import InputError

from .corebench.dataset import Dataset
from .corebench.leaks import leaks, texts_of
from .previewing import place_here, preview
from .tool_check import Looked


def check_scaffold(scaffold: Scaffold, refs: Sequence[TaskRef], datasets: Sequence[Dataset]) -> Iterator[Looked]:
    """Look at `scaffold`: its parts together, its tools, its prompt for each of `refs`, its texts against the recorded
    answers of `datasets`. What can't be is yielded as `wrong`, and the rest is looked at all the same."""
    yield Looked(name="loads", state="ok", told=f"{scaffold.label}, digest {scaffold.digest[:12]}")
    try:
        tools = make_tools(scaffold, Limits())
        check_coherent(scaffold)
    except InputError as error:
        yield Looked(name="parts", state="wrong", told=str(error))
        return
    for tool in tools.values():
        tool.close()
    yield Looked(name="parts", state="ok", told=f"tools: {', '.join(tools)}")
    for ref in refs:
        yield _composed(scaffold, ref)
    for dataset in datasets:
        yield from _given_away(scaffold, dataset)


def _composed(scaffold: Scaffold, ref: TaskRef) -> Looked:
    name = f"prompt {ref.level}"
    try:
        prompt = preview(scaffold, ref, place_here("registries"))
    except InputError as error:
        return Looked(name=name, state="wrong", told=str(error))
    told = [piece for piece in prompt.system if piece.hint]
    size = len(prompt.system_text.encode()) + len(prompt.task.encode())
    return Looked(name=name, state="ok", told=f"{len(told)} hints, {size:,} bytes, digest {prompt.digest[:12]}")


def _given_away(scaffold: Scaffold, dataset: Dataset) -> Iterator[Looked]:
    found = leaks(texts_of(scaffold), dataset)
    for leak in found:
        yield Looked(name="answers", state="wrong", told=f"{leak.text} holds an answer of {leak.task}: {leak.question}")
    if not found:
        yield Looked(
            name="answers", state="ok", told=f"none of {dataset.path.parent.name}/{dataset.path.name} in its texts"
        )
