"""Writes the events and the outcome of a job as text, one JSON document or JSON lines.

The data goes to stdout, messages to stderr. In text, events are messages and the result is the
data; in JSON everything is data, each document with its schema's name and version.
"""

from __future__ import annotations

import base64
import sys
from datetime import UTC, datetime
from typing import Any, Protocol

from rich.console import Console
from rich.text import Text

from arcp_client import LinkState, Result, events
from arcp_client.cli.exit_codes import CommandError, Exit
from arcp_client.cli.output_format import Output
from arcp_client.cli.view import render, terminal
from arcp_client.cli.view.job_tree import JobTree
from arcp_client.cli.view.panel import summary
from arcp_client.cli.view.terminal import harmless

__all__ = ["JobReport", "Lines", "plain", "reporter", "write_result"]

SCHEMA = "arcp-client.job/1"


class JobReport(Protocol):
    """Writes what happens to one job."""

    def began(self, tree: JobTree) -> None:
        """It was accepted, or is being watched."""

    def event(self, event: events.Event) -> None:
        """One event of it, or of a job that it delegated to. It may be shown a moment later."""

    def link(self, state: LinkState) -> None:
        """The connection stands differently."""

    def flush(self) -> None:
        """Show now what is to be shown."""

    async def refresh(self) -> None:
        """Keep what is shown up to date, until it is cancelled."""

    def close(self) -> None:
        """Show the rest, and leave the terminal to others. Idempotent."""

    def succeeded(self, result: Result | None, saved: str | None) -> None:
        """It ended in success; without ``result`` it was written to the file ``saved``."""

    def failed(self, problem: CommandError, error: Exception | None) -> None:
        """It did not, or its end is not known."""


def reporter(output: Output) -> JobReport:
    """The writer for a kind of output: a live view where there is a terminal for it."""
    if output is not Output.TEXT:
        return _Json(lines=output is Output.JSONL)
    console = terminal.err()
    if console.is_terminal and not console.is_dumb_terminal:
        from arcp_client.cli.view.live import LiveText

        return LiveText(console)
    return Lines(console)


def plain(value: Any) -> Any:
    """A result's value as JSON can hold it."""
    if isinstance(value, bytes):
        return {"encoding": "base64", "data": base64.b64encode(value).decode("ascii")}
    return value


def write_result(value: Any) -> None:
    """A result alone, on stdout: text as it is, other values as JSON."""
    if isinstance(value, bytes):
        if sys.stdout.isatty():
            raise CommandError(
                Exit.USAGE,
                f"the result is {render.count(len(value), 'byte')}, not text",
                "save it with -o FILE",
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


class Lines:
    """A line an event on stderr, at once; the result on stdout.

    Args:
        console: where lines go.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self._tree: JobTree | None = None

    def began(self, tree: JobTree) -> None:
        """It was accepted, or is being watched."""
        self._tree = tree
        line = Text().append("job ", "dim").append(harmless(tree.root.job_id), style="bold")
        line.append(f" · {harmless(tree.root.agent)}", style="dim")
        if tree.since is not None:
            line.append(f" · began {render.moment(tree.since)}", style="dim")
        self.write(line)

    def event(self, event: events.Event) -> None:
        """One event, with the agent's name before it if it is a child's."""
        tree = self._tree
        assert tree is not None
        job = tree.apply(event)
        line = Text()
        if event.ts is not None:
            line.append(render.local(event.ts, "%H:%M:%S "), style="dim")
        if event.redelivered:
            line.append("↻ ", style="yellow")
        if job is not tree.root:
            line.append(f"└ {harmless(job.agent or job.job_id)} ", style="blue")
        if isinstance(event, events.ToolResult):
            calls = reversed(job.calls)
            call = next((each for each in calls if each.call_id == event.call_id), None)
            line.append_text(render.result_text(event, call))
        else:
            line.append_text(render.event_text(event))
        self.write(line)

    def write(self, line: Text) -> None:
        """One line more."""
        self.console.print(line, soft_wrap=True)

    def link(self, state: LinkState) -> None:
        """A line for what is worth one."""
        text = render.state_text(state)
        if text is not None:
            self.write(text)

    def flush(self) -> None:
        """Every line was shown at once."""

    async def refresh(self) -> None:
        """There is nothing that changes."""

    def close(self) -> None:
        """The terminal is free."""

    def succeeded(self, result: Result | None, saved: str | None) -> None:
        """What it came to, and the result, or where it is."""
        self._sum_up()
        if saved is not None:
            terminal.tell(self.console, f"the result is in {saved}", "dim")
        if result is not None:
            write_result(result.value)

    def failed(self, problem: CommandError, error: Exception | None) -> None:
        """What it came to; the complaint says the rest."""
        self._sum_up()

    def _sum_up(self) -> None:
        tree = self._tree
        line = None if tree is None or not tree.root.ended else self._summary(tree)
        if line is not None:
            self.write(line)

    def _summary(self, tree: JobTree) -> Text | None:
        """What it came to, where more is known of it than was shown."""
        if tree.since is None:
            return None
        return summary(tree, tree.elapsed(datetime.now(UTC)))


class _Json:
    def __init__(self, *, lines: bool) -> None:
        self._lines = lines
        self._console = terminal.err()
        self._tree: JobTree | None = None
        self._events = 0
        self._gaps: list[dict[str, Any]] = []

    def began(self, tree: JobTree) -> None:
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
        text = render.state_text(state)
        if text is not None:
            self._console.print(text, soft_wrap=True)

    def flush(self) -> None:
        pass  # every line was written at once

    async def refresh(self) -> None:
        pass

    def close(self) -> None:
        pass

    def succeeded(self, result: Result | None, saved: str | None) -> None:
        more: dict[str, Any] = {} if saved is None else {"saved": saved}
        if result is not None:
            more["result"] = plain(result.value)
            if result.summary is not None:
                more["summary"] = result.summary
        self._end("success", more)

    def failed(self, problem: CommandError, error: Exception | None) -> None:
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
