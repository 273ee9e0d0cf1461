"""Writes the events and the outcome of a job as JSON on stdout.

Each document has the name and version of its schema.
"""

from __future__ import annotations

import base64
import sys
from typing import Any

from arcp_client import LinkState, Result, events
from arcp_client.cli.exit_codes import CommandError
from arcp_client.cli.view import render, terminal
from arcp_client.cli.view.job_tree import JobTree

__all__ = ["SCHEMA", "JsonReport", "plain"]

SCHEMA = "arcp-client.job/1"


def plain(value: Any) -> Any:
    """A result's value as JSON can hold it."""
    if isinstance(value, bytes):
        return {"encoding": "base64", "data": base64.b64encode(value).decode("ascii")}
    return value


class JsonReport:
    """Writes the outcome of a job as one document.

    Args:
        lines: write a line for the job and for each event, too.
    """

    def __init__(self, *, lines: bool) -> None:
        self._lines = lines
        self._console = terminal.err()
        self._tree: JobTree | None = None
        self._events = 0
        self._gaps: list[dict[str, Any]] = []

    def began(self, tree: JobTree) -> None:
        """It was accepted, or is being watched."""
        self._tree = tree
        job = tree.root
        if self._lines:
            self._line(
                "job",
                job_id=job.job_id,
                agent=job.agent,
                status=job.status,
                created_at=render.iso(tree.since),
            )

    def event(self, event: events.Event) -> None:
        """One event of it; those of its children are counted in the tree only."""
        assert self._tree is not None
        self._tree.apply(event)
        if not self._tree.is_own(event):
            return
        self._events += 1
        if isinstance(event, events.Gap):
            self._gaps.append({"first": event.first, "last": event.last, "reason": event.reason})
        if self._lines:
            document = {"schema": SCHEMA, "type": "event", "event": event.to_dict()}
            self._write(terminal.as_json(document, cut=True))

    def link(self, state: LinkState) -> None:
        """A line on stderr for what is worth one."""
        text = render.state_text(state)
        if text is not None:
            self._console.print(text, soft_wrap=True)

    def flush(self) -> None:
        """Every line was written at once."""

    async def refresh(self) -> None:
        """There is nothing that changes."""

    def close(self) -> None:
        """The terminal is free."""

    def succeeded(self, result: Result | None, saved: str | None) -> None:
        """The document of its outcome, with the result or the file that has it."""
        more: dict[str, Any] = {} if saved is None else {"saved": saved}
        if result is not None:
            more["result"] = plain(result.value)
            if result.summary is not None:
                more["summary"] = result.summary
        self._end("success", more)

    def failed(self, problem: CommandError, error: Exception | None) -> None:
        """The document of its outcome, with the error."""
        told: dict[str, Any] = {
            "exit_code": int(problem.code),
            "message": problem.happened,
            "remedy": problem.remedy,
            "help_url": problem.help_url,
        }
        for name in ("code", "retryable", "details"):
            value = getattr(error, name, None)
            if value is not None:
                told[name] = value
        self._end(None, {"error": told})

    def _end(self, status: str | None, more: dict[str, Any]) -> None:
        job = self._tree.root if self._tree is not None else None
        facts: dict[str, Any] = {
            "job_id": job.job_id if job is not None else None,
            "agent": job.agent if job is not None else None,
            "status": status or (job.status if job is not None else None),
            "created_at": render.iso(self._tree.since) if self._tree is not None else None,
            "ended_at": render.iso(job.last_at) if job is not None and job.ended else None,
            "events": self._events,
            "gaps": self._gaps,
        }
        self._line("outcome", **facts, **more)

    def _line(self, kind: str, **fields: Any) -> None:
        self._write(terminal.as_json({"schema": SCHEMA, "type": kind, **fields}))

    def _write(self, line: str) -> None:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
