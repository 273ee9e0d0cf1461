"""Declares ``arcp-client jobs``, which lists jobs."""

from __future__ import annotations

from typing import Annotated

import typer

from arcp_client.cli import completion
from arcp_client.cli.options import ConnectionOptions, OutputOptions, StatusOption


def jobs(
    *,
    status: StatusOption = None,
    agent: Annotated[
        str | None,
        typer.Option(
            metavar="AGENT", help="Only this agent's jobs.", autocompletion=completion.agents
        ),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Keep the list up to date until Ctrl-C.")
    ] = False,
    every: Annotated[
        float, typer.Option(min=0.1, metavar="SECONDS", help="Time between two updates of --watch.")
    ] = 2.0,
    at: ConnectionOptions,
    form: OutputOptions,
) -> int:
    """List the jobs that you may see.

    With --watch, the command shows a table on a terminal and updates it. If stdout is not a
    terminal, the command writes a line for each job that is new or has changed its status.
    """
    from arcp_client.cli.actions import jobs as action
    from arcp_client.cli.connection import place

    return action.jobs(
        place(at, form), status=[*(status or ())], agent=agent, watch=watch, every=every
    )
