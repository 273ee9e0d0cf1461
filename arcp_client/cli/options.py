"""Declares options that several commands share, and groups of options.

An option of a single command is declared in the command's module in `arcp_client.cli.commands`. A
parameter with the type of a group adds all options of the group; see `app`.
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
            raise typer.BadParameter(
                f"{each!r} is not a status, use one of {', '.join(StatusName)}"
            )
    return given or []


StatusOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="STATUS",
        callback=_check_statuses,
        autocompletion=completion.statuses(tuple(StatusName)),
        help=f"Only jobs with this status: {', '.join(StatusName)}. May be repeated.",
    ),
]
JobArgument = Annotated[
    str, typer.Argument(metavar="JOB", help="The job's id.", autocompletion=completion.jobs)
]
UrlOption = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="The runtime's ws:// or wss:// URL. By default ARCP_URL, the setting url, or"
        " ws://127.0.0.1:7777/arcp.",
    ),
]
OutputOption = Annotated[
    Output | None,
    typer.Option(
        "--output",
        metavar="text|json|jsonl",
        help="text for people, json for one JSON document, jsonl for a JSON document in each line.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="The same as --output json.")]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="A file with the bearer token. By default the token comes from ARCP_TOKEN,"
        " ARCP_TOKEN_FILE, the settings or the keyring.",
    ),
]
ProfileOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="A profile of arcp.toml or of the user's config.toml. By default ARCP_PROFILE.",
        autocompletion=completion.profiles,
    ),
]
ConnectTimeout = Annotated[
    float,
    typer.Option(min=0.1, metavar="SECONDS", help="Time limit for the first connection."),
]
ReconnectFor = Annotated[
    float,
    typer.Option(min=0, metavar="SECONDS", help="Time limit for reconnecting a lost connection."),
]
InputOption = Annotated[
    str,
    typer.Option(
        "--input",
        "-i",
        metavar="JSON|@FILE|-",
        help="The input of the job: JSON, a file with JSON, or stdin (-).",
    ),
]
AgentsOption = Annotated[
    str | None,
    typer.Option(
        metavar="MODULE:ATTR",
        help="A Runtime, or a function that returns one. The function may have the parameters"
        " auth, event_log and webhooks.",
    ),
]
AllowHostOption = Annotated[
    list[str] | None,
    typer.Option(metavar="HOST", help="Also answer requests for this host name. May be repeated."),
]
LeaseOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=PATTERN",
        help="Request a right for the job, such as fs.read=/src/** or cost.budget=USD:1. May be"
        " repeated.",
    ),
]
KeyOption = Annotated[
    str | None,
    typer.Option(
        metavar="KEY",
        help="Idempotency key: a second submit with this key and input gives the same job.",
    ),
]
SaveOption = Annotated[
    Path | None, typer.Option("--save", "-o", metavar="FILE", help="Write the result to this file.")
]
CancelReason = Annotated[
    str | None,
    typer.Option(metavar="TEXT", help="The reason for the cancellation, kept with the job."),
]


def _set_log_level(count: int) -> int:
    if count:
        import logging  # importing it takes a tenth of the time of --help

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
        help="Log to stderr; -vv adds details.",
    ),
]


HostOption = Annotated[str, typer.Option(metavar="ADDRESS", help="Address to listen on.")]
PortOption = Annotated[
    int,
    typer.Option(
        min=0, max=65535, metavar="PORT", help="Port to listen on; 0 selects a free port."
    ),
]
SpeedOption = Annotated[
    str,
    typer.Option(metavar="X|max", help="Replay speed: a factor, such as 4, or max."),
]


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """Options for connecting to a runtime. ``connection.place`` adds the settings."""

    url: UrlOption = None
    token_file: TokenFile = None
    profile: ProfileOption = None
    connect_timeout: ConnectTimeout = 5.0


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """Options for the output format."""

    output: OutputOption = None
    json: JsonOption = False

    def chosen(self) -> Output | None:
        """Return the format that the options select; ``None`` if the settings decide.

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
