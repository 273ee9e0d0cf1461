"""Events of the session in, each to its job's recent past and iterators: one consumer for all jobs.

A stream exists from the first event of its job on, also before the job was accepted (D12).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..events import Event, Gap
from .selection import Selection
from .streams import EventIterator, Relief, Retention, Tap

__all__ = ["JobStream", "JobStreams"]


class JobStream:
    """What is delivered of one job.

    Attributes:
        retention: its last events, for iterators that come late.
        tap: its iterators.
        ended: its terminal event was delivered.
    """

    __slots__ = ("ended", "job_id", "relief", "retention", "tap")

    def __init__(self, job_id: str, relief: Relief | None = None) -> None:
        self.job_id = job_id
        self.relief = relief
        self.retention = Retention()
        self.tap = Tap(relief)
        self.ended = False

    def push(self, event: Event) -> None:
        """Deliver one event."""
        self.retention.add(event)
        if self.tap.listening:
            self.tap.push(event)
        if event.terminal:
            self.ended = True
            self.tap.end()

    def iterate(self, selection: Selection) -> EventIterator[Event]:
        """A new iterator: what is retained first, then what comes, up to the terminal event."""
        iterator: EventIterator[Event] = EventIterator(
            selection, until_terminal=True, relief=self.relief
        )
        self.retention.replay(iterator, job_id=self.job_id)
        self.tap.add(iterator)
        return iterator


class JobStreams:
    """The streams of a client's jobs; a consumer of the subject.

    Args:
        unknown: called with a job id at its first event; gives the stream to use.
        ended: called when a stream has got its terminal event.
    """

    def __init__(
        self, unknown: Callable[[str], JobStream], ended: Callable[[JobStream], None]
    ) -> None:
        self._unknown = unknown
        self._ended = ended
        self._open: dict[str, JobStream] = {}
        self._draining: list[JobStream] = []

    def add(self, stream: JobStream) -> None:
        """Route the events of its job to it, until it ended."""
        self._open[stream.job_id] = stream

    def drop(self, job_id: str) -> None:
        """Route nothing to it any more."""
        self._open.pop(job_id, None)

    def __iter__(self) -> Iterator[JobStream]:
        return iter(tuple(self._open.values()))

    def accept(self, events: list[Event]) -> None:
        streams = self._open
        for event in events:
            stream = streams.get(event.job_id)  # type: ignore[arg-type]  # None is no key
            if stream is None or event.terminal:
                self._take(event)
            else:
                stream.push(event)

    def _take(self, event: Event) -> None:
        """An event of no job, of a job not heard of before, or the last one of a job."""
        job_id = event.job_id
        if job_id is None:
            if type(event) is Gap:  # a gap of the session concerns every open job
                for stream in self:
                    stream.push(event)
            return
        known = self._open.get(job_id)
        if known is None:
            known = self._open[job_id] = self._unknown(job_id)
        known.push(event)
        if known.ended:
            # Its iterators may still have to be read: they hold on to the stream by themselves.
            del self._open[job_id]
            if known.tap.outstanding:
                self._draining.append(known)
            self._ended(known)

    @property
    def outstanding(self) -> int:
        return max((stream.tap.outstanding for stream in self._busy()), default=0)

    def oldest(self, session_id: str) -> int | None:
        return min(self.numbers(session_id), default=None)

    def numbers(self, session_id: str) -> Iterator[int]:
        for stream in self._busy():
            yield from stream.tap.numbers(session_id)

    def _busy(self) -> Iterator[JobStream]:
        self._draining = [stream for stream in self._draining if stream.tap.outstanding]
        yield from self._open.values()
        yield from self._draining
