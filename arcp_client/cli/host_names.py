"""Checks the host names that ``--allow-host`` adds to a server."""

from __future__ import annotations

from collections.abc import Sequence

from arcp_client._security import AllowedHosts
from arcp_client.cli.exit_codes import CommandError, Exit

__all__ = ["check_host_names"]


def check_host_names(names: Sequence[str]) -> None:
    """Refuse a ``--allow-host`` that is not a host name."""
    try:
        AllowedHosts(names, what="--allow-host")
    except ValueError as error:
        raise CommandError(Exit.USAGE, str(error)) from None
