"""Declares ``arcp-client ping``, which connects to a runtime."""

from __future__ import annotations

from arcp_client.cli.options import ConnectionOptions, OutputOptions


def ping(*, at: ConnectionOptions, form: OutputOptions) -> int:
    """Connect to a runtime; show its agents and the round-trip time."""
    from arcp_client.cli.actions import ping as action
    from arcp_client.cli.connection import place

    return action.ping(place(at, form))
