"""Declares ``arcp-client acp-serve``, which is an ACP agent to an editor."""

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
            help="The directory of a hosted agent, as the runtime names it; relative to the agent's"
            " own. By default the editor's directory, which must then exist there.",
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

    The command speaks ACP on stdin and stdout.
    Editors such as Zed start this command. Each session is a job of the runtime, which goes on when
    the editor ends; the next editor loads the session and follows it. A question that is open is
    asked again. The agent is one that serve --acp made, or any other: then each prompt is a job.
    """
    from arcp_client.cli.actions import acp_serve as action
    from arcp_client.cli.connection import place

    return action.acp_serve(
        place(at, reconnect_for=float("inf")), agent,
        cwd=cwd, lease=lease or [], max_runtime=max_runtime,
    )  # fmt: skip
