"""Declares ``arcp-client cancel``, which cancels a job."""

from __future__ import annotations

from arcp_client.cli.options import CancelReason, ConnectionOptions, JobArgument


def cancel(job: JobArgument, *, reason: CancelReason = None, at: ConnectionOptions) -> int:
    """Cancel a job that you submitted on this machine.

    The job must have been submitted with arcp-client run or arcp-client mcp, by the same user.
    """
    from arcp_client.cli.actions import cancel as action
    from arcp_client.cli.connection import place

    return action.cancel(place(at), job, reason=reason)
