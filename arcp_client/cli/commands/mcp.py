"""Declares ``arcp-client mcp``, which serves the agents of a runtime as tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from arcp_client.cli.options import (
    AllowHostOption,
    ConnectionOptions,
    HostOption,
    LeaseOption,
    PortOption,
)


def mcp(
    *,
    http: Annotated[
        bool, typer.Option("--http", help="Serve streamable HTTP instead of stdin and stdout.")
    ] = False,
    host: HostOption = "127.0.0.1",
    port: PortOption = 7779,
    login_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="With --http: a file with the token that MCP clients must send. By default the"
            " token comes from ARCP_MCP_TOKEN or ARCP_MCP_TOKEN_FILE.",
        ),
    ] = None,
    allow_host: AllowHostOption = None,
    agent: Annotated[
        list[str] | None,
        typer.Option(
            metavar="AGENT",
            help="Offer only this agent, as name or name@version. May be repeated.",
        ),
    ] = None,
    wait: Annotated[
        float,
        typer.Option(
            min=0,
            metavar="SECONDS",
            help="How long a call waits for its job. A job that takes longer continues.",
        ),
    ] = 50.0,
    lease: LeaseOption = None,
    max_runtime: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Time after which the runtime ends a job."),
    ] = None,
    at: ConnectionOptions,
) -> int:
    """Serve the runtime's agents as MCP tools.

    MCP is the Model Context Protocol.
    By default the MCP client starts this command and talks to its stdin and stdout.
    A job that does not end within a call continues; the tools job_status, job_result and
    job_cancel take the id of the job, also in a later process. To serve other machines with --http,
    set --host 0.0.0.0; a token is then required.
    """
    from arcp_client.cli.actions import mcp as action
    from arcp_client.cli.connection import place

    return action.mcp(
        place(at, reconnect_for=float("inf")), http=http, host=host, port=port,
        login_file=login_file, allowed_hosts=allow_host or (), agents=agent, wait=wait,
        lease=lease or [], max_runtime=max_runtime,
    )  # fmt: skip
