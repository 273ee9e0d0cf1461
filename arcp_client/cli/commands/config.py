"""Declares ``arcp-client config show``, which prints the settings."""

from __future__ import annotations

from typing import Annotated

import typer

from arcp_client.cli.options import OutputOptions, ProfileOption


def show(
    *,
    origin: Annotated[
        bool, typer.Option("--origin", help="Also show the origin of each setting.")
    ] = False,
    profile: ProfileOption = None,
    form: OutputOptions,
) -> int:
    """Show the settings that commands use. The token is never shown."""
    from arcp_client.cli.actions import config as action

    return action.show(profile=profile, origin=origin, output=form.chosen())
