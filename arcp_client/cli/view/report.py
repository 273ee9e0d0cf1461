"""The interface through which a job is reported: as text, as one JSON document or as JSON lines.

Data goes to stdout, messages go to stderr. In text format, events are messages and the result is
data. In JSON formats everything is data, and each document has its schema's name and version.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
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
    """Reports the events and the outcome of one job."""

    @property
    def asks(self) -> bool:
        """Whether questions may be asked between its lines."""

    def began(self, tree: JobTree) -> None:
        """Report the job, which was accepted or is being watched."""

    def event(self, event: events.Event) -> None:
        """Report an event of the job or of a child. It may be shown a moment later."""

    def skip(self, left_out: Sequence[events.Event]) -> None:
        """Apply events to the state of the job, without showing them."""

    def skipped(self, count: int) -> None:
        """Report that so many earlier events are not shown."""

    def link(self, state: LinkState) -> None:
        """Report a change of the connection."""

    def flush(self) -> None:
        """Show pending output now."""

    async def refresh(self) -> None:
        """Update the live view, until cancelled."""

    def quiet(self) -> AbstractContextManager[None]:
        """Return a block in which nothing is drawn, because the user types."""

    def close(self) -> None:
        """Show pending output, and release the terminal. Idempotent."""

    def succeeded(self, result: Result | None, saved: str | None) -> None:
        """Report success. If ``result`` is None, the result is in the file ``saved``."""

    def failed(self, problem: CommandError, error: Exception | None) -> None:
        """Report a failure, or an unknown outcome."""


def reporter(output: Output) -> JobReport:
    """Make the report for an output format. On a terminal, the text format has a live view."""
    if output is not Output.TEXT:
        return JsonReport(lines=output is Output.JSONL)
    console = terminal.err()
    if console.is_terminal and not console.is_dumb_terminal:
        from arcp_client.cli.view.live import LiveText

        return LiveText(console)
    return Lines(console)
