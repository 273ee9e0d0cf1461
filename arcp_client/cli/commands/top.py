"""Declares ``arcp-client top``, which shows all jobs live."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from arcp_client.cli import completion
from arcp_client.cli.options import ConnectionOptions, ReconnectFor


def top(
    *,
    lines: Annotated[
        bool,
        typer.Option("--lines", help="Print changes as lines of words, for screen readers."),
    ] = False,
    sort: Annotated[
        Literal["time", "look", "progress", "cost", "name"],
        typer.Option(metavar="ORDER", help="time, look, progress, cost or name."),
    ] = "time",
    agent: Annotated[
        str | None,
        typer.Option(
            metavar="AGENT", help="Only this agent's jobs.", autocompletion=completion.agents
        ),
    ] = None,
    at: ConnectionOptions,
    reconnect_for: ReconnectFor = 600.0,
) -> int:
    """Watch all jobs live on a full screen.

    Each line says how a job is doing, and why it needs a look. Keys: arrows select a job, Enter
    shows its events, / filters, l shows the jobs that need a look, c cancels, o changes the order,
    q quits. With --lines, or without a terminal, the command prints a line for each change.
    """
    from arcp_client.cli.actions import top as action
    from arcp_client.cli.connection import place

    return action.top(place(at, reconnect_for=reconnect_for), lines=lines, sort=sort, agent=agent)
