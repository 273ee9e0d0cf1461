"""The options that several commands share."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated

import typer

from arcp_client.cli.exits import Complaint, Exit

__all__ = [
    "AgentsOption",
    "CancelReason",
    "ConnectTimeout",
    "InputOption",
    "JobArgument",
    "JsonOption",
    "KeyOption",
    "LeaseOption",
    "Output",
    "OutputOption",
    "ProfileOption",
    "ReconnectFor",
    "SaveOption",
    "TokenFile",
    "UrlOption",
    "chosen",
]


class Output(enum.StrEnum):
    """How data is written to stdout."""

    TEXT = "text"
    JSON = "json"
    JSONL = "jsonl"


JobArgument = Annotated[str, typer.Argument(metavar="JOB", help="The job's id.")]
UrlOption = Annotated[
    str | None,
    typer.Option(help="The runtime's ws:// or wss:// URL; else ARCP_URL, else this machine's."),
]
OutputOption = Annotated[
    Output | None,
    typer.Option("--output", help="text for people, json as one document, jsonl line by line."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="The same as --output json.")]
TokenFile = Annotated[
    Path | None,
    typer.Option(help="A file with the bearer token; else ARCP_TOKEN or ARCP_TOKEN_FILE."),
]
ProfileOption = Annotated[
    str | None, typer.Option(help="A profile of arcp.toml; else ARCP_PROFILE.")
]
ConnectTimeout = Annotated[
    float, typer.Option(min=0.1, help="Seconds to try for the first connection.")
]
ReconnectFor = Annotated[
    float, typer.Option(min=0, help="Seconds to try for a new connection when one is lost.")
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
LeaseOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=PATTERN",
        help="What the job may do, such as fs.read=/src/** or cost.budget=USD:1; may be repeated.",
    ),
]
KeyOption = Annotated[
    str | None,
    typer.Option(help="Idempotency key: the same key and input give the same job."),
]
SaveOption = Annotated[
    Path | None, typer.Option("--save", "-o", help="Write the result to this file.")
]
CancelReason = Annotated[str | None, typer.Option(help="Why, for the job's record.")]


def chosen(output: Output | None, json: bool) -> Output | None:
    """What ``--output`` and ``--json`` ask for together; ``None`` leaves it to the settings."""
    if json and output not in (None, Output.JSON):
        raise Complaint(
            Exit.USAGE, f"--json and --output {output} contradict each other", "give one of them"
        )
    return Output.JSON if json else output
