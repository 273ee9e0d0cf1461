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
        typer.Option(
            metavar="ORDER",
            help="time, look (jobs that need attention first), progress, cost or name.",
        ),
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
    """Watch all jobs that you may see, live on a full screen.

    Each line has the state of a job, and why the job needs attention: for example, it asks a
    question, is silent, or has little budget left. Keys: arrows select a job, Enter shows its
    events, / filters, l shows only the jobs that need attention, a answers a question, c cancels, o
    changes the order, q quits. With --lines, or without a terminal, the command prints a line for
    each change.
    """
    from arcp_client.cli.actions import top as action
    from arcp_client.cli.connection import place

    return action.top(place(at, reconnect_for=reconnect_for), lines=lines, sort=sort, agent=agent)
