"""Declares ``arcp-client record``, which records jobs to a transcript."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from arcp_client.cli import completion
from arcp_client.cli.options import ConnectionOptions, ReconnectFor


def record(
    jobs: Annotated[
        list[str] | None,
        typer.Argument(metavar="JOB", help="Ids of jobs.", autocompletion=completion.jobs),
    ] = None,
    *,
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", metavar="FILE", help="The file of the transcript; - for stdout."
        ),
    ],
    everything: Annotated[
        bool, typer.Option("--all", help="Record all running and new jobs, until Ctrl-C.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    at: ConnectionOptions,
    reconnect_for: ReconnectFor = 600.0,
) -> int:
    """Record jobs to a transcript until they end.

    Recognised secrets are masked.

    Ctrl-C ends the recording; the jobs keep running. Exit codes: see arcp-client --help.
    """
    from arcp_client.cli.actions import record as action
    from arcp_client.cli.connection import place

    where = place(at, reconnect_for=reconnect_for)
    return action.record(where, jobs or [], out, everything=everything, force=force)
