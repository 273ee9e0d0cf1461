"""Declares ``arcp-client web``, which serves the dashboard."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from arcp_client.cli.options import (
    AllowHostOption,
    ConnectionOptions,
    HostOption,
    PortOption,
    SpeedOption,
)


def web(
    *,
    host: HostOption = "127.0.0.1",
    port: PortOption = 7778,
    allow_control: Annotated[
        bool,
        typer.Option(
            "--allow-control", help="Let users submit and cancel jobs, and answer questions."
        ),
    ] = False,
    login_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A file with the login token. By default the token comes from ARCP_WEB_TOKEN or"
            " ARCP_WEB_TOKEN_FILE.",
        ),
    ] = None,
    allow_host: AllowHostOption = None,
    open_: Annotated[bool, typer.Option("--open", help="Open the dashboard in a browser.")] = False,
    replay: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Show a transcript instead of a runtime."),
    ] = None,
    speed: SpeedOption = "1",
    at: ConnectionOptions,
) -> int:
    """Serve a dashboard of the runtime's jobs to browsers.

    The dashboard is read-only. With --allow-control, users can submit and cancel jobs, and answer
    questions.
    To serve other machines, set --host 0.0.0.0; this requires a login token.
    """
    from arcp_client.cli.actions import web as action
    from arcp_client.cli.connection import place

    return action.web(
        place(at, reconnect_for=float("inf")), replay=replay, speed=speed, host=host, port=port,
        login_file=login_file, allow_control=allow_control, allowed_hosts=allow_host or (),
        open_=open_,
    )  # fmt: skip
