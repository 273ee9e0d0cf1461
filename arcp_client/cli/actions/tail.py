"""Shows the newest events of a history, and applies the earlier ones to the state of the job.

The history is complete with the last past event that the runtime has named (`Tail.ends_with`),
unless it reports children, whose histories follow. Otherwise it counts as complete after a short
pause, at the end of the job, and at the latest after ten seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Sequence

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

    def holds(self) -> bool:
        """Whether events still wait for the end of the history."""
        return self._count is not None

    def event(self, event: events.Event) -> None:
        """Take the next event of the job or of a child."""
        self.extend([event])

    def extend(self, batch: Sequence[events.Event]) -> None:
        """Take the next events of the job or of its children."""
        self._arrived = asyncio.get_running_loop().time()
        for event in batch:
            if type(event) is events.Delegate:
                self._delegated = True
            if event.id == self._last and not self._delegated:
                self._complete.set()
        if self._count is None:
            for event in batch:
                self._report.event(event)
            return
        waiting = self._waiting
        waiting.extend(batch)
        self._size += sum(event.size for event in batch)
        left_out: list[events.Event] = []
        while len(waiting) > self._count or self._size > _BYTES:
            oldest = waiting.popleft()
            self._size -= oldest.size
            if type(oldest) in _DIALOGUE:
                left_out += self._dialogue(oldest)
            else:
                left_out.append(oldest)
        self._skip(left_out)

    def _dialogue(self, event: events.Event) -> list[events.Event]:
        """What to skip for an event of a question: a question is kept while it may be open."""
        if isinstance(event, events.Question) and len(self._asked) < _QUESTIONS:
            self._asked[event.question_id] = event
            return []
        return [*self._closed(event), event]

    def _closed(self, event: events.Event) -> list[events.Event]:
        """The kept question that an event closes."""
        if isinstance(event, events.Answered | events.Expired | events.Withdrawn):
            asked = self._asked.pop(event.question_id, None)
            if asked is not None:
                return [asked]
        return []

    def _skip(self, left_out: Sequence[events.Event]) -> None:
        if left_out:
            self._skipped += len(left_out)
            self._report.skip(left_out)

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
            self._skip(self._closed(event))
        if self._skipped:
            self._report.skipped(self._skipped)
        for question in self._asked.values():
            self._report.event(question)
        self._asked.clear()
        while self._waiting:
            self._report.event(self._waiting.popleft())
        self.released.set()
