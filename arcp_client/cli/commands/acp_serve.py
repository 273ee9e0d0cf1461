"""Declares ``arcp-client acp-serve``, which serves an agent to an editor over ACP."""

from __future__ import annotations

from typing import Annotated

import typer

from arcp_client.cli.options import ConnectionOptions, LeaseOption


def acp_serve(
    agent: Annotated[
        str, typer.Argument(metavar="AGENT", help="The agent, as name or name@version.")
    ],
    *,
    cwd: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="The agent's working directory on the runtime's machine. A relative path starts at"
            " the agent's default directory. By default the editor's directory, which must then"
            " exist on the runtime's machine.",
        ),
    ] = None,
    lease: LeaseOption = None,
    max_runtime: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Time after which the runtime ends a job."),
    ] = None,
    at: ConnectionOptions,
) -> int:
    """Serve an agent to an editor, as an ACP agent.

    Editors such as Zed start this command, and speak ACP with it over stdin and stdout.
    For an agent from serve --acp, a session of the editor is one job; for any other agent, each
    prompt is a job. Jobs continue when the editor ends: the next editor loads the session and
    follows its jobs, and questions that are still open are asked again.
    """
    from arcp_client.cli.actions import acp_serve as action
    from arcp_client.cli.connection import place

    return action.acp_serve(
        place(at, reconnect_for=float("inf")), agent,
        cwd=cwd, lease=lease or [], max_runtime=max_runtime,
    )  # fmt: skip
