"""Declares ``arcp-client doctor``, which examines a runtime."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from arcp_client.cli.exit_codes import CommandError, Exit
from arcp_client.cli.options import ConnectionOptions, OutputOptions


def doctor(
    address: Annotated[
        str | None,
        typer.Argument(metavar="URL", help="The runtime's URL, instead of --url."),
    ] = None,
    *,
    at: ConnectionOptions,
    form: OutputOptions,
) -> int:
    """Examine whether a runtime conforms to the specification.

    The command starts no job and changes nothing on the runtime. The exit code is 0 only if the
    runtime conforms.
    """
    from arcp_client.cli.actions import doctor as action
    from arcp_client.cli.connection import place

    if address is not None and at.url is not None:
        raise CommandError(Exit.USAGE, "URL and --url both name a runtime", "give one of them")
    return action.doctor(place(replace(at, url=address or at.url), form))
