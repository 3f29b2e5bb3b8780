"""A scaffold as one YAML file that needs no other: what `agentctl scaffold new` writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agentctl.agents.plugins import names_code
from agentctl.agents.scaffold import Scaffold

_COMMENTS = {
    "name": "{name}: begun from {source}, with the same parts. Everything is in this file.\n"
    "See it: agentctl scaffold show FILE; check it: agentctl scaffold check FILE; use it: --scaffold FILE",
    "protocol": "how tools are told and called: native, plain, or thoughts (AutoGPT's JSON)",
    "system": "the template of the system message, in place of `text` also the name of a file beside this one\n"
    "places: ${role} ${installs} ${network} ${constraints} ${best_practices} ${tools} ${format}",
    "role": "what the agent is told that it is",
    "hints": "in the order of the prompt; a shipped one by its id, one's own as a .md file or written out as here",
    "tools": "by id; one's own as FILE.py:NAME",
    "history": "what of the past is sent: full, condense, or autogpt (summaries, the last four steps in full)",
    "context": "told anew in every request: clock, open-files",
    "checks": "at finish: report (its form), keys (the questions, no more), giving-up (asks the fast model)",
    "budget_notes": "what is left is told at marks, and enough is kept for the report",
    "roles": "parameters of the helpers' models, fast and vision",
    "faults": "of the original agents: see docs/fidelity.md",
    "idle_replies": "replies in a row without a usable call that end the attempt",
    "repeat_notice": "the same call and answer so often: the model is told",
    "repeat_end": "... so often: the attempt ends",
}
_FOUND_ANEW = {"code", "changes"}  # on loading


def as_file(scaffold: Scaffold, *, name: str, folder: Path) -> str:
    """The text of a YAML file that loads as `scaffold` under another name where it lies in `folder`."""
    tree = scaffold.model_dump(mode="json", exclude=_FOUND_ANEW, exclude_none=True) | {"name": name}
    tree["tools"] = [_tool(tool, scaffold, folder.resolve()) for tool in scaffold.tools]
    return "".join(_sections(tree, name=name, source=scaffold.label))


def _tool(tool: str, scaffold: Scaffold, folder: Path) -> str:
    """How a file in `folder` names a tool of `scaffold`: one's own by its path from there, or whole."""
    if not names_code(tool):
        return tool
    file = Path(scaffold.code[tool].source)
    return f"{file.relative_to(folder) if file.is_relative_to(folder) else file}:{tool.rpartition(':')[2]}"


def _sections(tree: Mapping[str, Any], **told: str) -> Iterator[str]:
    for field, value in tree.items():
        comment = _COMMENTS.get(field, "").replace("{name}", told["name"]).replace("{source}", told["source"])
        yield "".join(f"# {line}\n" for line in comment.splitlines())
        yield _yaml({field: _without_empty(value) if field == "hints" else value})


def _without_empty(hints: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in hint.items() if value not in ("", [])} for hint in hints]


def _yaml(tree: Mapping[str, Any]) -> str:
    import yaml

    class Dumper(yaml.SafeDumper):
        """Writes texts of several lines as they are."""

        def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
            super().increase_indent(flow, False)

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        style = "|" if "\n" in value or len(value) > 80 else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    return str(yaml.dump(tree, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=110))
