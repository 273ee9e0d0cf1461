"""Declares the options that several commands share, and the groups that they come in.

An option of one command stands in that command's module in `arcp_client.cli.commands`. A parameter
of a command whose type is one of the groups here adds all options of the group; see `app`.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from arcp_client.cli import completion
from arcp_client.cli.exit_codes import CommandError, Exit
from arcp_client.cli.output_format import Output

__all__ = [
    "AgentsOption",
    "AllowHostOption",
    "CancelReason",
    "ConnectTimeout",
    "ConnectionOptions",
    "HostOption",
    "InputOption",
    "JobArgument",
    "JsonOption",
    "KeyOption",
    "LeaseOption",
    "OutputOption",
    "OutputOptions",
    "PortOption",
    "ProfileOption",
    "ReconnectFor",
    "SaveOption",
    "SpeedOption",
    "StatusName",
    "StatusOption",
    "TokenFile",
    "UrlOption",
    "VerboseOption",
]


class StatusName(enum.StrEnum):
    """Statuses of jobs (§7.3)."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCESS = "success"
    ERROR = "error"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"


def _check_statuses(given: list[str] | None) -> list[str]:
    for each in given or ():
        if each not in tuple(StatusName):
            raise typer.BadParameter(f"{each!r} is no status; it is one of {', '.join(StatusName)}")
    return given or []


StatusOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="STATUS",
        callback=_check_statuses,
        autocompletion=completion.statuses(tuple(StatusName)),
        help=f"Only jobs of this status: {', '.join(StatusName)}. May be given again.",
    ),
]
JobArgument = Annotated[
    str, typer.Argument(metavar="JOB", help="The job's id.", autocompletion=completion.jobs)
]
UrlOption = Annotated[
    str | None,
    typer.Option(
        metavar="URL", help="The runtime's ws:// or wss:// URL; else ARCP_URL, else this machine's."
    ),
]
OutputOption = Annotated[
    Output | None,
    typer.Option(
        "--output",
        metavar="text|json|jsonl",
        help="text for people, json as one document, jsonl line by line.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="The same as --output json.")]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="A file with the bearer token; else ARCP_TOKEN or ARCP_TOKEN_FILE."
    ),
]
ProfileOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="A profile of arcp.toml; else ARCP_PROFILE.",
        autocompletion=completion.profiles,
    ),
]
ConnectTimeout = Annotated[
    float,
    typer.Option(min=0.1, metavar="SECONDS", help="How long to try for the first connection."),
]
ReconnectFor = Annotated[
    float,
    typer.Option(min=0, metavar="SECONDS", help="How long to try again when a connection is lost."),
]
InputOption = Annotated[
    str,
    typer.Option("--input", "-i", metavar="JSON|@FILE|-", help="JSON, a file of it, or stdin."),
]
AgentsOption = Annotated[
    str | None,
    typer.Option(
        metavar="MODULE:ATTR", help="A Runtime, or a function that returns one (auth= is passed)."
    ),
]
AllowHostOption = Annotated[
    list[str] | None,
    typer.Option(metavar="HOST", help="Also serve under this host name; may be repeated."),
]
LeaseOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=PATTERN",
        help="What the job may do, such as fs.read=/src/** or cost.budget=USD:1; may be repeated.",
    ),
]
KeyOption = Annotated[
    str | None,
    typer.Option(metavar="KEY", help="Idempotency key: the same key and input give the same job."),
]
SaveOption = Annotated[
    Path | None, typer.Option("--save", "-o", metavar="FILE", help="Write the result to this file.")
]
CancelReason = Annotated[
    str | None, typer.Option(metavar="TEXT", help="Why, for the job's record.")
]


def _set_log_level(count: int) -> int:
    if count:
        import logging  # costs a tenth of the time of --help

        logger = logging.getLogger("arcp_client")
        wanted = logging.INFO if count == 1 else logging.DEBUG
        logger.setLevel(min(wanted, logger.level or wanted))
    return count


VerboseOption = Annotated[
    int,
    typer.Option(
        "-v",
        "--verbose",
        count=True,
        show_default=False,
        metavar="",
        callback=_set_log_level,
        help="Log to stderr what is done; -vv in detail.",
    ),
]


HostOption = Annotated[str, typer.Option(metavar="ADDRESS", help="Address to listen on.")]
PortOption = Annotated[
    int, typer.Option(min=0, max=65535, metavar="PORT", help="Port to listen on; 0 picks one.")
]
SpeedOption = Annotated[
    str,
    typer.Option(metavar="X|max", help="Recorded seconds that are played in one second."),
]


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """How a command reaches a runtime. ``connection.place`` adds what the settings say."""

    url: UrlOption = None
    token_file: TokenFile = None
    profile: ProfileOption = None
    connect_timeout: ConnectTimeout = 5.0


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """How a command writes its data."""

    output: OutputOption = None
    json: JsonOption = False

    def chosen(self) -> Output | None:
        """The format of both options together; ``None`` leaves the choice to the settings.

        Raises:
            CommandError: the options contradict each other.
        """
        if self.json and self.output not in (None, Output.JSON):
            raise CommandError(
                Exit.USAGE,
                f"--json and --output {self.output} contradict each other",
                "give one of them",
            )
        return Output.JSON if self.json else self.output
