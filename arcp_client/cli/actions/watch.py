"""Follows a job of any session to its end."""

from __future__ import annotations

from arcp_client.cli.actions import saved_runs
from arcp_client.cli.actions.follow import Following
from arcp_client.cli.actions.job_facts import entry_of
from arcp_client.cli.connection import Place, connected
from arcp_client.cli.exit_codes import Exit
from arcp_client.cli.interrupts import Interrupts, execute
from arcp_client.cli.view.report import reporter

__all__ = ["watch"]


def watch(where: Place, job_id: str, *, history: bool, tail: int | None = None) -> Exit:
    """Follow a job of any session.

    Args:
        where: the runtime, and the form of the output.
        job_id: the job.
        history: whether to begin with the past events.
        tail: how many of them to show; ``None`` for all.
    """
    report = reporter(where.output)

    async def body(interrupts: Interrupts) -> Exit:
        async with connected(where, interrupts, tell=report.link) as client:
            stream = client.events()
            view = await client.watch(job_id, history=history)
            entry = await entry_of(client, job_id)
            following = Following(
                client,
                stream,
                interrupts,
                report,
                back="arcp-client watch",
                tail=tail if history else None,
                over=lambda: saved_runs.forget(job_id),
            )
            since = entry.created_at if entry is not None else None
            return await following.follow(view, history=history, since=since)

    return execute(body)
