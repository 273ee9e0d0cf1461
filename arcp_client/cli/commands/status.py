"""Declares ``arcp-client status``, which shows the status of a job."""

from __future__ import annotations

from arcp_client.cli.options import ConnectionOptions, JobArgument, OutputOptions


def status(job: JobArgument, *, at: ConnectionOptions, form: OutputOptions) -> int:
    """Show the status of a job: progress, times, lease, budget."""
    from arcp_client.cli.actions import status as action
    from arcp_client.cli.connection import place

    return action.status(place(at, form), job)
