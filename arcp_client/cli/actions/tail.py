"""Shows the newest events of a history, and applies the earlier ones to the state of the job.

The history is complete with the last past event that the runtime has named (`Tail.ends_with`),
unless it reports children, whose histories follow. Otherwise it counts as complete after a short
pause, at the end of the job, and at the latest after ten seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque

from arcp_client import events
from arcp_client.cli.view.report import JobReport

__all__ = ["MOST", "Tail"]

MOST = 10_000
"""The largest number of events of a tail."""
_BYTES = 8 << 20
_QUESTIONS = 256
_DIALOGUE = frozenset({events.Answered, events.Expired, events.Question, events.Withdrawn})
_PAUSE = 0.3
_LONGEST = 10.0


class Tail:
    """Passes events on to a report, of a history only the newest ones.

    At most 8 MiB of events wait for the end of the history.

    Args:
        report: shows the events.
        count: how many events of the history to show; ``None`` for all.

    Attributes:
        released: set once each event is shown as it arrives.
    """

    def __init__(self, report: JobReport, count: int | None) -> None:
        self._report = report
        self._count = count
        self._waiting: deque[events.Event] = deque()
        self._size = 0
        self._skipped = 0
        self._asked: dict[str, events.Question] = {}
        self._arrived = 0.0
        self._last: str | None = None
        self._delegated = False
        self._complete = asyncio.Event()
        self.released = asyncio.Event()
        if count is None:
            self.released.set()

    def ends_with(self, event_id: str | None) -> None:
        """Set the id of the last past event; empty if there is none, ``None`` if it is unknown."""
        self._last = event_id
        if event_id == "":
            self._complete.set()

    def event(self, event: events.Event) -> None:
        """Take the next event of the job or of a child."""
        self._arrived = asyncio.get_running_loop().time()
        if isinstance(event, events.Delegate):
            self._delegated = True
        if event.id == self._last and not self._delegated:
            self._complete.set()
        if self._count is None:
            self._report.event(event)
            return
        self._waiting.append(event)
        self._size += event.size
        while len(self._waiting) > self._count or self._size > _BYTES:
            oldest = self._waiting.popleft()
            self._size -= oldest.size
            self._leave_out(oldest)

    def _leave_out(self, event: events.Event) -> None:
        """Skip an event; keep a question, because it is shown if it is still open."""
        if type(event) in _DIALOGUE:
            if isinstance(event, events.Question) and len(self._asked) < _QUESTIONS:
                self._asked[event.question_id] = event
                return
            self._close(event)
        self._skip(event)

    def _close(self, event: events.Event) -> None:
        """Skip the question that an event closes."""
        if isinstance(event, events.Answered | events.Expired | events.Withdrawn):
            asked = self._asked.pop(event.question_id, None)
            if asked is not None:
                self._skip(asked)

    def _skip(self, event: events.Event) -> None:
        self._skipped += 1
        self._report.skip(event)

    async def settle(self) -> None:
        """Wait for the end of the history, and show its newest events and its open questions.

        Later calls wait for the end of what a new link delivers again.
        """
        loop = asyncio.get_running_loop()
        began = self._arrived = loop.time()
        wait = min(_PAUSE, _LONGEST)
        while wait > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._complete.wait()
                    break
            wait = min(self._arrived + _PAUSE, began + _LONGEST) - loop.time()
        self.ends_with(None)
        self._complete.clear()
        self.release()

    def release(self) -> None:
        """Show the events that wait, and from now on each event as it arrives. Idempotent."""
        if self._count is None:
            return
        self._count = None
        for event in self._waiting:
            self._close(event)
        if self._skipped:
            self._report.skipped(self._skipped)
        for question in self._asked.values():
            self._report.event(question)
        self._asked.clear()
        while self._waiting:
            self._report.event(self._waiting.popleft())
        self.released.set()
