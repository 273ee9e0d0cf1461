"""Writes the events of a job as lines on stderr, and its result on stdout."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.text import Text

from arcp_client import LinkState, Result, events
from arcp_client.cli.exit_codes import CommandError, Exit
from arcp_client.cli.view import render, terminal
from arcp_client.cli.view.job_tree import JobTree
from arcp_client.cli.view.panel import summary
from arcp_client.cli.view.terminal import harmless

__all__ = ["Lines", "write_result"]


def write_result(value: Any) -> None:
    """Write a result to stdout: text unchanged, other values as JSON."""
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
    """Prints each event as a line on stderr, and the result on stdout.

    Args:
        console: the output for lines.
    """

    asks = True

    def __init__(self, console: Console) -> None:
        self.console = console
        self._tree: JobTree | None = None

    def began(self, tree: JobTree) -> None:
        """Print the job, which was accepted or is being watched."""
        self._tree = tree
        line = Text().append("job ", "dim").append(harmless(tree.root.job_id), style="bold")
        line.append(f" · {harmless(tree.root.agent)}", style="dim")
        if tree.since is not None:
            line.append(f" · began {render.moment(tree.since)}", style="dim")
        self.write(line)

    def event(self, event: events.Event) -> None:
        """Print one event. An event of a child begins with the child's agent."""
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
        if isinstance(event, events.Question):
            how = f"  answer it:  arcp-client answer {event.job_id} {event.question_id} VALUE"
            self.write(Text(harmless(how), style="dim"))

    def skip(self, left_out: Sequence[events.Event]) -> None:
        """Apply events to the state of the job, without lines."""
        assert self._tree is not None
        self._tree.apply_all(left_out)

    def skipped(self, count: int) -> None:
        """Print how many earlier events are not shown."""
        self.write(Text(f"{render.count(count, 'earlier event')} not shown", "dim"))

    def write(self, line: Text) -> None:
        """Print a line."""
        self.console.print(line, soft_wrap=True)

    def link(self, state: LinkState) -> None:
        """Print a notable change of the link."""
        text = render.state_text(state)
        if text is not None:
            self.write(text)

    def flush(self) -> None:
        """Does nothing: each line is printed at once."""

    async def refresh(self) -> None:
        """Does nothing: there is no live view."""

    def quiet(self) -> AbstractContextManager[None]:
        """Return a block that does nothing: there is no live view."""
        return nullcontext()

    def close(self) -> None:
        """Does nothing: the terminal is not held."""

    def succeeded(self, result: Result | None, saved: str | None) -> None:
        """Print the summary, and the result or the name of its file."""
        self._sum_up()
        if saved is not None:
            terminal.tell(self.console, f"the result is in {saved}", "dim")
        if result is not None:
            write_result(result.value)

    def failed(self, problem: CommandError, error: Exception | None) -> None:
        """Print the summary; the error message follows separately."""
        self._sum_up()

    def _sum_up(self) -> None:
        tree = self._tree
        line = None if tree is None or not tree.root.ended else self._summary(tree)
        if line is not None:
            self.write(line)

    def _summary(self, tree: JobTree) -> Text | None:
        """Summarise the job, if there is more to tell than its events showed."""
        if tree.since is None:
            return None
        return summary(tree, tree.elapsed(datetime.now(UTC)))
