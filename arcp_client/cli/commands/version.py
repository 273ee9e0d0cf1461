"""Declares ``arcp-client version``, which prints versions."""

from __future__ import annotations

from arcp_client.cli.options import OutputOptions


def version(*, form: OutputOptions) -> int:
    """Print the versions of this command and its libraries."""
    from arcp_client.cli.actions import version as action

    return action.version(form.chosen())
