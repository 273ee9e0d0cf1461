"""Declares ``arcp-client inbox``, which shows the open questions of all jobs."""

from __future__ import annotations

from typing import Annotated

import typer

from arcp_client.cli.options import ConnectionOptions, OutputOptions, ReconnectFor


def inbox(
    *,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Also show new questions, until Ctrl-C.")
    ] = False,
    answer: Annotated[
        bool,
        typer.Option("--answer", help="Ask you each question, and send the answer that you type."),
    ] = False,
    at: ConnectionOptions,
    reconnect_for: ReconnectFor = 600.0,
    form: OutputOptions,
) -> int:
    """List the open questions of agents.

    The list has the questions of all jobs that you may see.
    """
    from arcp_client.cli.actions import inbox as action
    from arcp_client.cli.connection import place

    return action.inbox(place(at, form, reconnect_for=reconnect_for), follow=follow, answer=answer)
