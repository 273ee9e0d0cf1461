"""Waits for the end of a job and writes its result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from arcp_client import JobHandle, events
from arcp_client.cli.actions import saved_runs
from arcp_client.cli.actions.exact_outcome import exact_result
from arcp_client.cli.actions.follow import save_result
from arcp_client.cli.connection import Place, connected
from arcp_client.cli.exit_codes import CommandError, Exit
from arcp_client.cli.interrupts import Interrupts, execute
from arcp_client.cli.output_format import Output
from arcp_client.cli.view import terminal
from arcp_client.cli.view.json_report import SCHEMA, plain
from arcp_client.cli.view.render import count
from arcp_client.cli.view.text_report import write_result

__all__ = ["result"]


def result(where: Place, job_id: str, *, save: Path | None) -> Exit:
    """Wait for the end of a job, and write its result."""

    async def body(interrupts: Interrupts) -> Exit:
        async with connected(where, interrupts) as client:
            async with interrupts.stop():
                view = await client.watch(job_id, history=True)
                if save is not None:
                    size = await save_result(view, save)
                    terminal.tell(terminal.err(), f"wrote {count(size, 'byte')} to {save}", "dim")
                else:
                    found = exact_result(await view.result(), await _end(view))
                    _say_result(where, view, found.value)
                saved_runs.forget(job_id)
                return Exit.SUCCESS
            raise CommandError(
                Exit.INTERRUPTED,
                "interrupted; the job is not affected",
                "run it again at any time",
            )

    return execute(body)


async def _end(view: JobHandle) -> events.Event | None:
    """The event that ended the job."""
    end: events.Event | None = None
    async for event in view.events(events.Completed):
        end = event
    return end


def _say_result(where: Place, view: JobHandle, value: Any) -> None:
    if where.output is Output.TEXT:
        write_result(value)
        return
    document = {
        "schema": SCHEMA,
        "type": "outcome",
        "job_id": view.id,
        "agent": view.agent,
        "status": view.status,
        "result": plain(value),
    }
    print(terminal.as_json(document))
