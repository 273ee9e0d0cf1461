"""A job's events and outcome in, text, one JSON document or JSON lines out.

The data goes to stdout, messages to stderr. In text, events are messages and the result is the
data; in JSON everything is data, each document with its schema's name and version.
"""

from __future__ import annotations

import base64
import sys
from typing import Any, Protocol

from rich.text import Text

from arcp_client import JobHandle, Result, events
from arcp_client.cli import render, terminal
from arcp_client.cli.exits import Complaint, Exit
from arcp_client.cli.options import Output

__all__ = ["Report", "plain", "reporter", "write_result"]

SCHEMA = "arcp-client.job/1"


class Report(Protocol):
    """Writes what happens to one job."""

    def began(self, job: JobHandle) -> None:
        """It was accepted, or is being watched."""

    def event(self, event: events.Event) -> None:
        """One event of it."""

    def succeeded(self, job: JobHandle, result: Result | None, saved: str | None) -> None:
        """It ended in success; without ``result`` it was written to the file ``saved``."""

    def failed(self, job: JobHandle | None, problem: Complaint, error: Exception | None) -> None:
        """It did not, or its end is not known."""


def reporter(output: Output) -> Report:
    """The writer for a kind of output."""
    if output is Output.TEXT:
        return _Text()
    return _Json(lines=output is Output.JSONL)


def plain(value: Any) -> Any:
    """A result's value as JSON can hold it."""
    if isinstance(value, bytes):
        return {"encoding": "base64", "data": base64.b64encode(value).decode("ascii")}
    return value


def write_result(value: Any) -> None:
    """A result alone, on stdout: text as it is, other values as JSON."""
    if isinstance(value, bytes):
        if sys.stdout.isatty():
            raise Complaint(
                Exit.USAGE, f"the result is {len(value):,} bytes, not text", "save it with -o FILE"
            )
        sys.stdout.flush()
        sys.stdout.buffer.write(value)
        sys.stdout.buffer.flush()
        return
    text = value if isinstance(value, str) else terminal.as_json(value)
    if sys.stdout.isatty():
        text = terminal.harmless(text, lines=True)
    sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
    sys.stdout.flush()


class _Text:
    def __init__(self) -> None:
        self._console = terminal.err()

    def began(self, job: JobHandle) -> None:
        line = Text("job ", style="dim").append(terminal.harmless(job.id), style="bold")
        line.append(f" · {terminal.harmless(job.agent)}", style="dim")
        self._console.print(line, soft_wrap=True)

    def event(self, event: events.Event) -> None:
        stamp = event.ts.astimezone().strftime("%H:%M:%S ") if event.ts is not None else ""
        line = Text(stamp, style="dim").append_text(render.event_text(event))
        self._console.print(line, soft_wrap=True)

    def succeeded(self, job: JobHandle, result: Result | None, saved: str | None) -> None:
        if saved is not None:
            terminal.tell(self._console, f"the result is in {saved}", "dim")
        if result is not None:
            write_result(result.value)

    def failed(self, job: JobHandle | None, problem: Complaint, error: Exception | None) -> None:
        pass  # the complaint says it


class _Json:
    def __init__(self, *, lines: bool) -> None:
        self._lines = lines
        self._events = 0
        self._gaps: list[dict[str, Any]] = []

    def began(self, job: JobHandle) -> None:
        if self._lines:
            self._line("job", job_id=job.id, agent=job.agent, status=job.status)

    def event(self, event: events.Event) -> None:
        self._events += 1
        if isinstance(event, events.Gap):
            self._gaps.append({"first": event.first, "last": event.last, "reason": event.reason})
        if self._lines:
            self._line("event", event=event.to_dict())

    def succeeded(self, job: JobHandle, result: Result | None, saved: str | None) -> None:
        more: dict[str, Any] = {} if saved is None else {"saved": saved}
        if result is not None:
            more["result"] = plain(result.value)
            if result.summary is not None:
                more["summary"] = result.summary
        self._end(job, job.status, more)

    def failed(self, job: JobHandle | None, problem: Complaint, error: Exception | None) -> None:
        told: dict[str, Any] = {"exit_code": int(problem.code), "message": problem.happened}
        for name in ("code", "retryable", "details"):
            value = getattr(error, name, None)
            if value is not None:
                told[name] = value
        self._end(job, job.status if job is not None else None, {"error": told})

    def _end(self, job: JobHandle | None, status: str | None, more: dict[str, Any]) -> None:
        facts: dict[str, Any] = {
            "job_id": job.id if job is not None else None,
            "agent": job.agent if job is not None else None,
            "status": status,
            "events": self._events,
            "gaps": self._gaps,
        }
        self._line("outcome", **facts, **more)

    def _line(self, kind: str, **fields: Any) -> None:
        document = {"schema": SCHEMA, "type": kind, **fields}
        sys.stdout.write(f"{terminal.as_json(document)}\n")
        sys.stdout.flush()
