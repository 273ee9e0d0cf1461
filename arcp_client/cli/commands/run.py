"""Declares ``arcp-client run``, which submits a job and follows it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from arcp_client.cli import completion
from arcp_client.cli.exit_codes import CommandError, Exit
from arcp_client.cli.options import (
    ConnectionOptions,
    InputOption,
    KeyOption,
    LeaseOption,
    OutputOptions,
    ReconnectFor,
    SaveOption,
)


def run(
    agent: Annotated[
        str | None,
        typer.Argument(
            metavar="AGENT",
            help="The agent, as name or name@version. With --resume, the id of a job.",
            autocompletion=completion.agents_or_jobs,
        ),
    ] = None,
    *,
    input: InputOption = "null",
    lease: LeaseOption = None,
    max_runtime: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Time after which the runtime ends the job."),
    ] = None,
    key: KeyOption = None,
    retries: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            help="Submit the job again, at most N times, if it ends with a retryable error.",
        ),
    ] = 0,
    save: SaveOption = None,
    detach: Annotated[
        bool, typer.Option("--detach", help="Submit the job, print its id, and exit.")
    ] = False,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Follow the newest job of arcp-client run that has not ended, or the job whose id"
            " is given as AGENT.",
        ),
    ] = False,
    ephemeral: Annotated[
        bool,
        typer.Option(
            "--ephemeral",
            help="Save nothing: --resume and arcp-client cancel then do not find the job.",
        ),
    ] = False,
    record: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Record the job to this transcript, for arcp-client replay."
        ),
    ] = None,
    at: ConnectionOptions,
    reconnect_for: ReconnectFor = 600.0,
    form: OutputOptions,
) -> int:
    """Submit a job and follow it to its result.

    With the name of an agent, --help also shows the input that the agent declares.

    Events go to stderr, the result to stdout; with --output json or jsonl both go to stdout.
    Ctrl-C ends the command, not the job, and prints a command that follows the job again. A second
    Ctrl-C cancels the job. After a crash or a reboot, continue with arcp-client run --resume.
    """
    from arcp_client.cli.actions import run as action
    from arcp_client.cli.connection import Place, place

    def kept(url: str | None, profile: str | None) -> Place:
        own = replace(at, url=at.url or url, profile=at.profile or profile)
        return place(own, form, reconnect_for=reconnect_for)

    if resume:
        return action.resume(kept, agent, save=save)
    if agent is None:
        raise CommandError(Exit.USAGE, "Missing argument 'AGENT'", "see --help")
    return action.run(
        kept(None, None), agent, input, lease=lease or [], max_runtime=max_runtime, key=key,
        retries=retries, save=save, detach=detach, ephemeral=ephemeral, profile=at.profile,
        record=record,
    )  # fmt: skip
