"""Which of an agent's calls are meant: said by what a call does, so that it holds for tools of any name.

A call that runs a shell command is told by its argument `command` or `command_line`. Of a command, its simple commands
are looked at one by one, so that a program that is run is told from one that is only mentioned.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from operator import itemgetter
from pathlib import PurePosixPath

from pydantic import JsonValue, field_validator, model_validator

from agentctl.base.values import Frozen

_COMMAND_ARGUMENTS = ("command", "command_line")
_PATH_ARGUMENT = re.compile(r"path|file|folder|dir", re.IGNORECASE)

_QUOTED_OR_BREAK = re.compile(
    r"""(?P<single>'[^']*')|(?P<double>"(?:\\.|[^"\\])*")|\\.|(?P<break>\n|;|&&?|\|\|?|\$\(|`|[()]|\{\s|\s\}|\s-exec(?=\s))""",
    re.DOTALL,
)
_SHELL_TEXT = re.compile(
    r"""\b(?:ba|da|z)?sh\s+(?:-\w+\s+)*-\w*c\s+(?P<quote>['"])(?P<text>.*?)(?P=quote)""", re.DOTALL
)
_WORD = re.compile(r"""[^\s'"`;|&<>()]+""")
_INNER = re.compile(r"\$\(([^()]*)\)|`([^`]*)`")
_BEFORE_PROGRAM = re.compile(
    r"(?:do|then|else|elif|if|while|until|!|time|sudo|nohup|exec|command|env|nice|stdbuf|xargs|timeout)\s+(?![<>])"
    r"|(?:conda|mamba|micromamba|poetry|uv|pipenv)\s+run\s+(?:(?:-n|-p|--name|--prefix)\s+\S+\s+)?"
    r"|(?:-\S+|[A-Za-z_]\w*=\S*|\d+[smh]?)\s+"
)
_FOLDER = re.compile(r"(?:[\w.~-]*/)+(?=[\w.-]+(?:\s|$))")


class CallMade(Frozen):
    """One call that was run."""

    name: str  # of the tool
    arguments: dict[str, JsonValue]


class Act(Frozen):
    """One thing done by a call: a simple command, or the call itself where it runs none."""

    call: int  # its number
    tool: str
    command: tuple[str, ...] = ()  # as it is, and from its program on
    paths: tuple[str, ...] = ()  # that it names: arguments that are called so, and the words of a command


class Deed(Frozen):
    """What a call has to do to be meant: run a command, or be a call of a tool; and with `paths`, name such a path.

    `commands` is a regular expression that a simple command begins with: as it is, or from its program's name on, so
    without `sudo`, `timeout 60`, `X=1` and the program's folder. `calls` names tools by variable (`vision`) or by name.
    `paths` are patterns as a shell's, over a path's last parts, upper and lower case alike.
    """

    commands: str | None = None
    calls: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()

    @field_validator("commands")
    @classmethod
    def _is_a_pattern(cls, value: str | None) -> str | None:
        try:
            re.compile(value or "")
        except re.error as error:
            raise ValueError(f"is no regular expression: {error}") from None
        return value

    @model_validator(mode="after")
    def _says_something(self) -> Deed:
        if not (self.commands or self.calls or self.paths):
            raise ValueError("says of no call that it is meant: give commands, calls or paths")
        return self

    def meant(self, act: Act, tools: Mapping[str, str]) -> bool:
        """Whether `act` is meant. `tools`: the names of the scaffold's tools by variable."""
        if (self.commands or self.calls) and not (self._runs(act) or self._calls(act, tools)):
            return False
        return not self.paths or bool(self.paths_in(act))

    def paths_in(self, act: Act) -> frozenset[str]:
        """The paths of `act` that are meant."""
        return frozenset(path for path in act.paths if fits(path, self.paths))

    def _calls(self, act: Act, tools: Mapping[str, str]) -> bool:
        return act.tool in {tools.get(each, each) for each in self.calls}

    def _runs(self, act: Act) -> bool:
        return self.commands is not None and any(re.match(self.commands, form) for form in act.command)


def fits(path: str, patterns: tuple[str, ...]) -> bool:
    """Whether the last parts of `path` match one of `patterns`: `*.pdf`, `results/output`."""
    parts = PurePosixPath(path.lower()).parts
    for pattern in patterns:
        wanted = PurePosixPath(pattern.lower()).parts
        if len(parts) >= len(wanted) and all(map(fnmatchcase, parts[-len(wanted) :], wanted)):
            return True
    return False


def acts_of(calls: Sequence[CallMade]) -> list[Act]:
    """What was done by `calls`, in order: of a call that runs a command, each of its simple commands."""
    acts: list[Act] = []
    for number, call in enumerate(calls):
        paths = tuple(_path_arguments(call))
        texts = [text for name in _COMMAND_ARGUMENTS if isinstance(text := call.arguments.get(name), str)]
        if not texts:
            acts.append(Act(call=number, tool=call.name, paths=paths))
        for command in (command for text in texts for command in simple_commands(text) or [""]):
            forms = (command, from_program(command))
            acts.append(Act(call=number, tool=call.name, command=forms, paths=(*paths, *_WORD.findall(command))))
    return acts


def _path_arguments(call: CallMade) -> Iterator[str]:
    for name, value in call.arguments.items():
        if _PATH_ARGUMENT.search(name):
            yield from (each for each in (value if isinstance(value, list) else [value]) if isinstance(each, str))


def simple_commands(text: str) -> list[str]:
    """The simple commands of a shell command, also those within `$(...)`, `sh -c '...'` and `find -exec`.

    What a here-document holds is taken for commands, too: mostly it is a script about to be run.
    """
    pieces: list[tuple[int, str]] = []  # with their places
    start = 0
    for found in _QUOTED_OR_BREAK.finditer(text):
        if found["break"]:
            pieces.append((start, text[start : found.start()]))
            start = found.end()
        elif found["double"]:
            for inner in _INNER.finditer(found["double"]):
                pieces += ((start, command) for command in simple_commands(inner[1] or inner[2] or ""))
    pieces.append((start, text[start:]))
    for found in _SHELL_TEXT.finditer(text):
        pieces += ((found.start(), command) for command in simple_commands(found["text"]))
    return [command for _, piece in sorted(pieces, key=itemgetter(0)) if (command := piece.strip())]


def from_program(command: str) -> str:
    """`command` from the name of its program on: of `X=1 sudo /usr/bin/make all`, that is `make all`."""
    while found := _BEFORE_PROGRAM.match(command):
        if command.startswith("command") and command[found.end() :].startswith(("-v", "-V")):
            break  # asks whether there is a program; does not run it
        command = command[found.end() :]
    return _FOLDER.sub("", command, count=1) if _FOLDER.match(command) else command
