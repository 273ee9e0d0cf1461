"""Writes the events and the outcome of a job as JSON on stdout.

Each document contains the name and version of its schema.
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from arcp_client import LinkState, Result, events
from arcp_client import _digits as digits
from arcp_client.cli.exit_codes import CommandError
from arcp_client.cli.view import render, terminal
from arcp_client.cli.view.job_tree import JobTree

__all__ = ["SCHEMA", "JsonReport", "plain"]

SCHEMA = "arcp-client.job/1"


def plain(value: Any) -> Any:
    """Convert a result's value to JSON values."""
    if isinstance(value, bytes):
        return {"encoding": "base64", "data": base64.b64encode(value).decode("ascii")}
    return value


class JsonReport:
    """Writes the outcome of a job as one document.

    Args:
        lines: also write a line for the job and for each event.
    """

    asks = False

    def __init__(self, *, lines: bool) -> None:
        self._lines = lines
        self._console = terminal.err()
        self._tree: JobTree | None = None
        self._events = 0
        self._gaps: list[dict[str, Any]] = []

    def began(self, tree: JobTree) -> None:
        """Write the job, which was accepted or is being watched."""
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
        """Write one event of the job. Events of children only update the tree."""
        self.skip([event])
        assert self._tree is not None
        if self._lines and self._tree.is_own(event):
            fields = digits.fields_of(event)
            document = {"schema": SCHEMA, "type": "event", "event": fields}
            self._write(terminal.as_json(document, cut=True))

    def skip(self, left_out: Sequence[events.Event]) -> None:
        """Count events of the job, without lines."""
        tree = self._tree
        assert tree is not None
        tree.apply_all(left_out)
        for event in left_out:
            if tree.is_own(event):
                self._events += 1
                if isinstance(event, events.Gap):
                    gap = {"first": event.first, "last": event.last, "reason": event.reason}
                    self._gaps.append(gap)

    def skipped(self, count: int) -> None:
        """Write how many earlier events have no line."""
        if self._lines:
            self._line("skipped", events=count)

    def link(self, state: LinkState) -> None:
        """Print a notable change of the link on stderr."""
        text = render.state_text(state)
        if text is not None:
            self._console.print(text, soft_wrap=True)

    def flush(self) -> None:
        """Does nothing: each line is written at once."""

    async def refresh(self) -> None:
        """Does nothing: there is no live view."""

    def quiet(self) -> AbstractContextManager[None]:
        """Return a block that does nothing: there is no live view."""
        return nullcontext()

    def close(self) -> None:
        """Does nothing: the terminal is not used."""

    def succeeded(self, result: Result | None, saved: str | None) -> None:
        """Write the outcome, with the result or the name of its file."""
        more: dict[str, Any] = {} if saved is None else {"saved": saved}
        if result is not None:
            more["result"] = plain(result.value)
            if result.summary is not None:
                more["summary"] = result.summary
        self._end("success", more)

    def failed(self, problem: CommandError, error: Exception | None) -> None:
        """Write the outcome, with the error."""
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
