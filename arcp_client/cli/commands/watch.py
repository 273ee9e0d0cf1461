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
    at: ConnectionOptions,
    reconnect_for: ReconnectFor = 600.0,
    form: OutputOptions,
) -> int:
    """Follow a job of any of your sessions to its end.

    Ctrl-C stops watching; the job continues.
    """
    from arcp_client.cli.actions import watch as action
    from arcp_client.cli.connection import place

    return action.watch(place(at, form, reconnect_for=reconnect_for), job, history=history)
