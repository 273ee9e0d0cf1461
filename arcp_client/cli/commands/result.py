"""Declares ``arcp-client result``, which writes the result of a job."""

from __future__ import annotations

from arcp_client.cli.options import (
    ConnectionOptions,
    JobArgument,
    OutputOptions,
    ReconnectFor,
    SaveOption,
)


def result(
    job: JobArgument,
    *,
    save: SaveOption = None,
    at: ConnectionOptions,
    reconnect_for: ReconnectFor = 600.0,
    form: OutputOptions,
) -> int:
    """Wait for the end of a job and write its result."""
    from arcp_client.cli.actions import result as action
    from arcp_client.cli.connection import place

    return action.result(place(at, form, reconnect_for=reconnect_for), job, save=save)
