"""Declares ``arcp-client watch``, which follows a job."""

from __future__ import annotations

from typing import Annotated

import typer

from arcp_client.cli.options import ConnectionOptions, JobArgument, OutputOptions, ReconnectFor


def watch(
    job: JobArgument,
    *,
    history: Annotated[
        bool, typer.Option(help="Begin with the past events that the runtime still has.")
    ] = True,
    tail: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            max=10_000,
            help="Print only the last N past events. By default all.",
        ),
    ] = None,
    at: ConnectionOptions,
    reconnect_for: ReconnectFor = 600.0,
    form: OutputOptions,
) -> int:
    """Follow a job that you may see, to its end.

    With --tail N, only the last N past events are printed; the status view still counts all events.
    Ctrl-C stops watching; the job continues.
    """
    from arcp_client.cli.actions import watch as action
    from arcp_client.cli.connection import place

    where = place(at, form, reconnect_for=reconnect_for)
    return action.watch(where, job, history=history, tail=tail)
