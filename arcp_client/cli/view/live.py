"""Shows a live view of a job at the bottom of the terminal, below the lines of its events.

Progress, budgets and pieces of a streamed result get no line, and only change the view. The
terminal is updated at most ten times a second, however many events arrive.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import termios
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from time import monotonic

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.live import Live
from rich.text import Text

from arcp_client import LinkState, Reconnecting, Result, events
from arcp_client.cli.exit_codes import CommandError
from arcp_client.cli.view.job_tree import JobTree
from arcp_client.cli.view.panel import Frame, panel, summary
from arcp_client.cli.view.render import duration
from arcp_client.cli.view.text_report import Lines

__all__ = ["LiveText"]

_TICK = 0.1
_SECOND = 1.0
_FULL = 256
"""Maximum number of lines that wait for the next update."""


def _is_quiet(event: events.Event) -> bool:
    """Whether the view shows the event, so that it needs no line."""
    if isinstance(event, events.Metric):
        return event.name == "cost.budget.remaining"
    return isinstance(event, events.Progress | events.ResultChunk)


class LiveText(Lines):
    """Prints lines on a terminal, with the job's state below them.

    Args:
        console: the terminal.
    """

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._view: _View | None = None
        self._live: Live | None = None
        self._terminal = contextlib.ExitStack()
        self._waiting: list[Text] = []
        self._changed = False
        self._held = False
        self._drawn_at = 0.0

    def began(self, tree: JobTree) -> None:
        """Show the view."""
        super().began(tree)
        self._view = _View(self.console, tree)
        self._live = Live(
            self._view,
            console=self.console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            vertical_overflow="crop",
        )
        self._terminal.enter_context(_silent_controls())
        self._live.start()
        self.console.show_cursor()  # after kill -9 the cursor could not be restored
        self.flush()

    def event(self, event: events.Event) -> None:
        """Update the view with an event, and print its line."""
        assert self._tree is not None
        assert self._view is not None
        self._changed = True
        self._view.heard(event)
        if _is_quiet(event):
            self._tree.apply(event)
        else:
            super().event(event)

    def skip(self, left_out: Sequence[events.Event]) -> None:
        """Update the view with events, without lines."""
        assert self._view is not None
        self._changed = True
        self._view.heard(left_out[-1])
        super().skip(left_out)

    def write(self, line: Text) -> None:
        """Add a line, printed at the next update."""
        self._waiting.append(line)
        if self._live is None or len(self._waiting) >= _FULL:
            self.flush()

    def link(self, state: LinkState) -> None:
        """Print a change of the link, and mark it in the view."""
        if self._view is not None:
            self._view.linked(state)
            self._changed = True
        super().link(state)

    def flush(self) -> None:
        """Print waiting lines, and update the view now."""
        self._changed = False
        self._drawn_at = monotonic()
        lines, self._waiting = self._waiting, []
        if self._view is not None:
            self._view.draw()
        if lines:
            self.console.print(Group(*lines), soft_wrap=True)
        elif self._live is not None and not self._held:
            self._live.refresh()

    async def refresh(self) -> None:
        """Show changes ten times a second, and the clock every second."""
        while self._live is not None:
            await asyncio.sleep(_TICK)
            due = monotonic() - self._drawn_at >= _SECOND
            if not self._held and (self._waiting or self._changed or due):
                self.flush()

    @contextlib.contextmanager
    def quiet(self) -> Iterator[None]:
        """Remove the view while the user types. Events are shown after that."""
        live = self._live
        if live is None or self._held:
            yield
            return
        self.flush()
        live.stop()
        self._held = True
        try:
            yield
        finally:
            self._held = False
            if self._live is live:
                live.start()
                self.console.show_cursor()
                self.flush()

    def close(self) -> None:
        """Print the rest, and remove the view."""
        live, self._live = self._live, None
        if live is None:
            return
        try:
            self.flush()
        finally:
            live.stop()
            self._terminal.close()

    def succeeded(self, result: Result | None, saved: str | None) -> None:
        """Print the summary and the result."""
        self.close()
        super().succeeded(result, saved)

    def failed(self, problem: CommandError, error: Exception | None) -> None:
        """Print the summary; the error message follows separately."""
        self.close()
        super().failed(problem, error)

    def _summary(self, tree: JobTree) -> Text | None:
        return None if self._view is None else summary(tree, self._view.elapsed)


@contextlib.contextmanager
def _silent_controls() -> Iterator[None]:
    """Keep the terminal from echoing ``^C`` into the view."""
    try:
        if os.tcgetpgrp(sys.stdin.fileno()) != os.getpgrp():
            raise OSError("in the background, a process that touches the terminal is stopped")
        before = termios.tcgetattr(sys.stdin)
        silent = [*before]
        silent[3] &= ~termios.ECHOCTL
        termios.tcsetattr(sys.stdin, termios.TCSANOW, silent)
    except (OSError, ValueError, termios.error):
        yield
        return
    try:
        yield
    finally:
        with contextlib.suppress(OSError, termios.error):
            if os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp():
                termios.tcsetattr(sys.stdin, termios.TCSANOW, before)


class _View:
    """The lines at the bottom of the terminal, drawn for its present size."""

    def __init__(self, console: Console, tree: JobTree) -> None:
        self.tree = tree
        self._console = console
        self._began = monotonic()
        self._heard: tuple[datetime, float] | None = None
        self._state: Reconnecting | None = None
        self._lost_at = 0.0
        self._size = (0, 0)
        self._lines: list[Text] = []

    @property
    def elapsed(self) -> float:
        """The running time of the job in seconds, as far as known."""
        return self.tree.elapsed(self._now(), monotonic() - self._began)

    def heard(self, event: events.Event) -> None:
        """Update the runtime's clock from an event, unless it may be an old one."""
        if event.ts is not None and not event.redelivered:
            zoned = event.ts if event.ts.tzinfo is not None else event.ts.replace(tzinfo=UTC)
            self._heard = zoned, monotonic()

    def linked(self, state: LinkState) -> None:
        """Update the state of the connection."""
        self._state = state if isinstance(state, Reconnecting) else None
        self._lost_at = monotonic()

    def draw(self) -> None:
        """Update the lines."""
        size = self._console.size
        self._size = (size.width, size.height)
        self._lines = panel(self.tree, self._frame())

    def _frame(self) -> Frame:
        width, height = self._size
        # One cell less than the width: some terminals wrap after a full line.
        return Frame(max(width - 1, 1), height, self.elapsed, self._now(), self._link())

    def _now(self) -> datetime:
        if self._heard is None:
            return datetime.now(UTC)
        moment, at = self._heard
        try:
            return moment + timedelta(seconds=monotonic() - at)
        except OverflowError:  # the runtime's clock is at the end of the calendar
            return moment

    def _link(self) -> str:
        if self._state is None:
            return ""
        left = self._state.delay - (monotonic() - self._lost_at)
        again = f"reconnecting in {duration(left)}" if left >= 1 else "reconnecting"
        return f"{again}, attempt {self._state.attempt}"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if (console.size.width, console.size.height) != self._size:
            self.draw()
        yield Group(*self._lines)
