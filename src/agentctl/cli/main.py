"""The command's front door: which commands there are, and how an error leaves."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

import click

from agentctl import __version__
from agentctl.base.errors import AgentctlError

from .words import harmless

# Each command is imported when it is asked for: `agentctl --help` stays quick.
_COMMANDS = {
    "solve": "Run an agent on one task.",
    "show": "Read a record: what the agent did, or one request as it was sent.",
    "replay": "Play a record again, tools for real, and show every difference.",
    "score": "Score a record's deliverable again.",
    "spend": "Sum what records came to, by model, role, class of tokens or task.",
    "validate": "Check a report.json against its questions.",
    "capsule": "Datasets and capsules: list, fetch, import, verify, remove.",
    "tool": "Look at a tool of one's own, in every sandbox.",
    "scaffold": "Scaffolds: list, show, compare, make one's own, check.",
    "doctor": "Look at this machine: sandboxes, Python, keys.",
}


class Lazy(click.Group):
    """A group whose commands live in modules of their own names."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command = import_module(f"agentctl.cli.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group(cls=Lazy, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="agentctl")
@click.pass_context
def cli(context: click.Context) -> None:
    """Run, meter, record, replay and compare agents that reproduce papers.

    Try it: agentctl solve capsule-4810297
    """
    if os.environ.get("NO_COLOR"):
        context.color = False


def main(arguments: list[str] | None = None) -> Any:
    """Run the command line; ends the process with 0, 1 (ran and failed) or 2 (bad input or set-up)."""
    try:
        cli.main(args=arguments, prog_name="agentctl", standalone_mode=False)
    except click.exceptions.Abort:
        click.echo("agentctl: stopped", err=True)
        sys.exit(1)
    except click.exceptions.NoArgsIsHelpError as error:  # nothing was typed: the help, as it is
        click.echo(error.format_message(), err=True)
        sys.exit(2)
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "agentctl"
        click.echo(f"agentctl: {' '.join(error.format_message().split())} (see: {command} --help)", err=True)
        sys.exit(2)
    except click.exceptions.Exit as leaving:
        sys.exit(leaving.exit_code)
    except AgentctlError as error:
        click.echo(f"agentctl: {harmless(str(error))}", err=True)
        sys.exit(error.exit_status)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except OSError as error:  # of a file or a disk
        where = f"{error.filename}: " if error.filename else ""
        click.echo(f"agentctl: {where}{error.strerror or error}", err=True)
        sys.exit(1)
