"""Requests the runtime to cancel a job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from arcp_client import Client
from arcp_client.cli.actions import saved_runs
from arcp_client.cli.connection import Place, connected
from arcp_client.cli.environment import user_directory
from arcp_client.cli.exit_codes import CommandError, Exit
from arcp_client.cli.interrupts import Interrupts, execute
from arcp_client.cli.view import terminal
from arcp_client.errors import PermissionDenied
from arcp_client.projection import ENDED

__all__ = ["cancel", "request_cancel"]


def cancel(where: Place, job_id: str, *, reason: str | None) -> Exit:
    """Cancel a job that this user submitted by ``arcp-client run`` or ``arcp-client mcp``."""

    async def body(interrupts: Interrupts) -> Exit:
        async with connected(where, interrupts) as client:
            view = await client.watch(job_id)
            if view.status in ENDED:
                terminal.tell(terminal.err(), f"the job has ended already: {view.status}")
                return Exit.SUCCESS
            await request_cancel(client, job_id, reason)
            terminal.tell(terminal.err(), f"the runtime was asked to end job {job_id}")
        return Exit.SUCCESS

    return execute(body, at_once=True)


async def request_cancel(client: Client, job_id: str, reason: str | None = None) -> None:
    """Ask the runtime to cancel a job of this session, of a run, or of the MCP bridge of this user.

    Raises:
        CommandError: the runtime did not allow it, or no longer knows the job.
        ArcpError: the request failed.
    """
    run = saved_runs.find(job_id)
    submit = await _submit_of_mcp(job_id) if run is None else run.submit
    try:
        if submit is None:
            await client.cancel_job(job_id, reason or "user.cancel")
            return
        # Repeating the submit with its key returns the same job, and lets this session cancel it.
        job = await client.submit(**submit)
        await job.cancel(reason or "user.cancel")  # also if it is a new job: see below
    except PermissionDenied as refused:
        raise CommandError(
            Exit.AUTHENTICATION,
            f"the runtime did not allow it: {refused.message or refused.code}",
            "use the program that submitted the job; for a job of `arcp-client run` or `mcp`, call"
            " `arcp-client cancel` as the same user on the same machine",
        ) from refused
    if job.id != job_id:
        raise CommandError(
            Exit.NOT_FOUND, f"the runtime no longer knows job {job_id}; nothing was cancelled"
        )
    if run is not None:
        run.over()


async def _submit_of_mcp(job_id: str) -> Mapping[str, Any] | None:
    """Return the submit of a job that ``arcp-client mcp`` of this user started."""
    home = user_directory("state")
    if home is None or not (home / "mcp").is_dir():
        return None
    try:
        from arcp_client.mcp import FileSubmits
    except ModuleNotFoundError:  # the extra was removed
        return None
    return await FileSubmits(home / "mcp").find(job_id)
