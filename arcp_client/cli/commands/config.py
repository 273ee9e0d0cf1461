"""Declares ``arcp-client config show``, which prints the settings."""

from __future__ import annotations

from typing import Annotated

import typer

from arcp_client.cli.options import OutputOptions, ProfileOption


def show(
    *,
    origin: Annotated[
        bool, typer.Option("--origin", help="Also show where each setting comes from.")
    ] = False,
    profile: ProfileOption = None,
    form: OutputOptions,
) -> int:
    """Show the settings that commands would use. The token is never shown."""
    from arcp_client.cli.actions import config as action

    return action.show(profile=profile, origin=origin, output=form.chosen())
