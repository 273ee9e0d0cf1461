"""Builds the parser of the command line from the functions in `arcp_client.cli.commands`.

To add an option to one command, edit the command's module in `commands`; options of several
commands are in `options`. To add a command, add a module to `commands` and a line to `COMMANDS`.
"""

from __future__ import annotations

import errno
import inspect
import os
import re
import sys
from collections.abc import Callable
from dataclasses import is_dataclass
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from arcp_client.cli.commands.acp import acp
from arcp_client.cli.commands.acp_serve import acp_serve
from arcp_client.cli.commands.answer import answer
from arcp_client.cli.commands.cancel import cancel
from arcp_client.cli.commands.config import show
from arcp_client.cli.commands.demo import demo
from arcp_client.cli.commands.doctor import doctor
from arcp_client.cli.commands.inbox import inbox
from arcp_client.cli.commands.jobs import jobs
from arcp_client.cli.commands.login import login
from arcp_client.cli.commands.logout import logout
from arcp_client.cli.commands.mcp import mcp
from arcp_client.cli.commands.ping import ping
from arcp_client.cli.commands.record import record
from arcp_client.cli.commands.replay import replay
from arcp_client.cli.commands.result import result
from arcp_client.cli.commands.run import run as run_
from arcp_client.cli.commands.serve import serve
from arcp_client.cli.commands.status import status
from arcp_client.cli.commands.top import top
from arcp_client.cli.commands.version import version
from arcp_client.cli.commands.watch import watch
from arcp_client.cli.commands.web import web
from arcp_client.cli.exit_codes import CommandError, Exit, page_of, short_link
from arcp_client.cli.options import VerboseOption
from arcp_client.cli.streams import accept_any_text
from arcp_client.version import __version__

__all__ = ["COMMANDS", "parser", "run"]

Command = Callable[..., int]

COMMANDS: tuple[Command, ...] = (
    demo, serve, acp, run_, watch, inbox, answer, jobs, top, status, cancel, result, ping, record,
    replay, doctor, web, mcp, acp_serve, login, logout, version,
)  # fmt: skip
"""The commands in the order of ``--help``; each has the name of its function."""
CONFIG_COMMANDS: tuple[Command, ...] = (show,)
"""The commands below ``config``."""
TAKES_FOREIGN_OPTIONS = (acp,)
"""Commands that pass options on to another program."""

_COMPLETE = "_ARCP_CLIENT_COMPLETE"
"""The environment variable by which a shell asks for a completion."""
_TYPED = ("COMP_WORDS", "_TYPER_COMPLETE_ARGS")
"""The variables that hold the line so far, of bash and of the other shells."""
_SUMMARY = (
    "Submit jobs to agents over ARCP, and follow their events in order, across lost connections."
)
_EPILOG = (
    "Exit codes: 0 success · 1 job failed · 2 usage · 3 connection · 4 authentication ·"
    " 5 not found · 6 lease or budget · 7 gap · 124 timed out · 130 interrupted."
    "  Set the token in ARCP_TOKEN, a token file or the keyring; no option takes the token itself."
)


# ------------------------------------------------------------------------- the parser


class _NoConversion:
    """The conversion of an option without a value: a flag, or a counted option such as ``-vv``."""

    @staticmethod
    def coerce(value: bool | int | None, **_: Any) -> bool | int | None:
        return value


class _AsTyped:
    """Leaves values as they were typed while a completion is answered, and flags in any case.

    To convert a value, typer imports pydantic, which takes twice the time of all the rest. A
    completion compares words, and the help of a command reads only flags.
    """

    def parse_args(self: Any, ctx: Any, args: list[str]) -> list[str]:
        for parameter in self.get_params(ctx):
            if ctx.resilient_parsing:
                parameter.process_value = lambda ctx, value: value
            elif getattr(parameter, "is_flag", False) or getattr(parameter, "count", False):
                parameter.get_runtime_param = lambda: _NoConversion
        words: list[str] = super().parse_args(ctx, args)  # type: ignore[misc]
        return words


class _Group(_AsTyped, TyperGroup):
    """The commands."""


class _Command(_AsTyped, TyperCommand):
    """A command whose help shows names of values, and not Python types."""

    def get_help(self, ctx: Any) -> str:
        return re.sub(r" <(?:str|path|int|float|list\[str\])>", "", super().get_help(ctx))


class _RunCommand(_Command):
    """``run``, whose help for an agent shows what the agent declares."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing and {"-h", "--help"}.intersection(args):
            try:
                ctx.obj = self.make_parser(ctx).parse_args(args=list(args))[0]
            except Exception:  # noqa: BLE001 - the parser below raises it again, and reports it
                ctx.obj = None
        return super().parse_args(ctx, args)

    def get_help(self, ctx: Any) -> str:
        text = super().get_help(ctx)
        given = ctx.obj if isinstance(ctx.obj, dict) else {}
        agent = given.get("agent")
        if not isinstance(agent, str) or given.get("resume"):
            return text
        from arcp_client.cli.actions.agent_help import agent_help

        return f"{text}\n\n{agent_help(agent, given)}"


def _callback(command: Command) -> Callable[..., None]:
    """Make the function that typer calls for a command.

    The function has the signature of the command, with two changes. A parameter that is a group of
    options is replaced by the fields of the group. ``--verbose`` is added, unless the command
    passes options on to another program.
    """
    parameters: dict[str, inspect.Parameter] = {}
    groups: dict[str, tuple[type[Any], list[str]]] = {}
    for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
        kind = parameter.annotation
        if isinstance(kind, type) and is_dataclass(kind):
            fields = inspect.signature(kind, eval_str=True).parameters
            groups[name] = kind, list(fields)
            parameters.update(fields)
        else:
            parameters[name] = parameter
    if command not in TAKES_FOREIGN_OPTIONS:
        parameters["verbose"] = inspect.Parameter(
            "verbose", inspect.Parameter.KEYWORD_ONLY, default=0, annotation=VerboseOption
        )

    def callback(**given: Any) -> None:
        given.pop("verbose", None)  # the option's callback has set the level
        for name, (kind, fields) in groups.items():
            given[name] = kind(**{field: given.pop(field) for field in fields})
        _begun.append(True)
        raise typer.Exit(_exit_code(lambda: command(**given)))

    callback.__annotations__ = {name: each.annotation for name, each in parameters.items()}
    callback.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters.values()]
    )
    return callback


def _register(to: typer.Typer, commands: tuple[Command, ...], line: str | None) -> None:
    for command in commands:
        name = command.__name__.replace("_", "-")
        foreign = {"ignore_unknown_options": True} if command in TAKES_FOREIGN_OPTIONS else None
        kind = _RunCommand if command is run_ else _Command
        declare = to.command(name, cls=kind, help=command.__doc__, context_settings=foreign)
        declare(_callback(command) if line is None or name in line else _not_typed)


def _not_typed() -> None:
    """Stand for a command that the command line does not name; it has no options."""


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"arcp-client {__version__}")
        raise typer.Exit


def parser(line: str | None = None) -> typer.Typer:
    """Build the parser.

    Args:
        line: the command line. Only commands whose name is in it get their options, which takes
            half of the time; by default all get them.
    """
    app = typer.Typer(
        name="arcp-client",
        cls=_Group,
        epilog=_EPILOG,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(help=_SUMMARY)(_main)
    _register(app, COMMANDS, line)
    config = typer.Typer(
        cls=_Group, help="Show settings.", no_args_is_help=True, rich_markup_mode=None
    )
    _register(config, CONFIG_COMMANDS, line)
    app.add_typer(config, name="config")
    return app


def _main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_print_version, help="Print the version and exit."
        ),
    ] = False,
    verbose: VerboseOption = 0,
) -> None:
    """Read the options before the command."""


# ------------------------------------------------------------------------- running it

_begun: list[bool] = []
"""Not empty once a command runs; its errors then carry their own link."""


def run() -> int:
    """Run the command of sys.argv, or answer a shell's completion; return the exit code."""
    accept_any_text()
    words = sys.argv[1:]
    if _COMPLETE in os.environ:
        words += [os.environ.get(name, "") for name in _TYPED]
        # Typer would import rich to remove its markup from help texts, and ours have none.
        sys.modules["rich"] = None  # type: ignore[assignment]
    return _exit_code(lambda: _run(parser(" ".join(words))))


def _run(app: typer.Typer) -> int:
    try:
        app(prog_name="arcp-client")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(Exit.FAILED)
        if code == Exit.USAGE and not _begun and sys.argv[1:] not in ([], ["config"]):
            # The parser has printed the error, without a link.
            print(f"  {short_link(page_of(Exit.USAGE))}", file=sys.stderr)
        return code
    return int(Exit.SUCCESS)


_UNWRITABLE = frozenset(
    {errno.EPIPE, errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EIO, errno.EBADF}
)


def _exit_code(command: Callable[[], int]) -> int:
    """Run a command; report any error on stderr, and return the exit code."""
    try:
        code = command()
        sys.stdout.flush()
    except CommandError as problem:
        return _reported(problem)
    except KeyboardInterrupt:
        return _reported(CommandError(Exit.INTERRUPTED, "interrupted"))
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _UNWRITABLE and error.filename is None:
            # Nothing more is written to stdout, not even when the interpreter exits.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            if error.errno == errno.EPIPE:  # the reader closed the pipe
                return int(Exit.INTERRUPTED)
            happened = f"the output cannot be written: {error.strerror}"
            return _reported(CommandError(Exit.FAILED, happened, "check where stdout goes"))
        if os.environ.get("ARCP_DEBUG"):
            raise
        happened = f"unexpected {type(error).__name__}: {error}"
        return _reported(CommandError(Exit.FAILED, happened, "set ARCP_DEBUG=1 for the traceback"))
    return int(code)


def _reported(problem: CommandError) -> int:
    from arcp_client.cli.view.terminal import print_error

    print_error(problem)
    return int(problem.code)
