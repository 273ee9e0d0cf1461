"""Writes the events and the outcome of a job as text, one JSON document or JSON lines.

The data goes to stdout, messages to stderr. In text, events are messages and the result is the
data; in JSON everything is data, each document with its schema's name and version.
"""

from __future__ import annotations

from typing import Protocol

from arcp_client import LinkState, Result, events
from arcp_client.cli.exit_codes import CommandError
from arcp_client.cli.output_format import Output
from arcp_client.cli.view import terminal
from arcp_client.cli.view.job_tree import JobTree
from arcp_client.cli.view.json_report import JsonReport
from arcp_client.cli.view.text_report import Lines

__all__ = ["JobReport", "reporter"]


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
        return JsonReport(lines=output is Output.JSONL)
    console = terminal.err()
    if console.is_terminal and not console.is_dumb_terminal:
        from arcp_client.cli.view.live import LiveText

        return LiveText(console)
    return Lines(console)
