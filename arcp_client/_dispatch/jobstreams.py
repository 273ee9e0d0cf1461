"""Routes each job's events to the job's replay buffer and iterators, as one consumer for all jobs.

A stream exists from the first event of its job on, even if the job is not accepted yet (rule D12 in
docs/explanation/rules.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

from arcp_client._dispatch.event_filter import EventFilter
from arcp_client._dispatch.reader_gate import ReaderGate
from arcp_client._dispatch.replay_buffer import Kept, ReplayBuffer, ReplayMemory
from arcp_client._dispatch.streams import Iteration, Tap
from arcp_client._protocol.actions import EventRun
from arcp_client.events import Event, Gap

__all__ = ["JobStream", "JobStreams"]


class JobStream:
    """The events of one job.

    Attributes:
        replay_buffer: the job's last events, for late iterators.
        tap: the job's iterators.
        ended: the terminal event was delivered.
        heard: when the newest event arrived, by the clock of the event loop; 0.0 before the first.
        observers: for classes of events, the methods that update the stream from such an event,
            before the event is delivered.

    Args:
        job_id: the job's id.
        gate: is told when iterators have processed events.
        memory: the limit that all replay buffers share.
    """

    __slots__ = ("ended", "gate", "heard", "job_id", "replay_buffer", "tap")

    observers: ClassVar[Mapping[type[Event], Callable[[Any, Any], None]]] = {}

    def __init__(self, job_id: str, gate: ReaderGate, memory: ReplayMemory) -> None:
        self.job_id = job_id
        self.gate = gate
        self.replay_buffer = ReplayBuffer(memory)
        self.tap = Tap(gate)
        self.ended = False
        self.heard = 0.0

    def extend(
        self, events: list[Event], now: float, largest: int, kept: Kept | None = None
    ) -> None:
        """Deliver a batch of events.

        Args:
            events: the events, in order.
            now: their arrival time.
            largest: bytes of the largest event, or more.
            kept: for each event, the form in which the replay buffer keeps it; the event itself
                by default.
        """
        self.heard = now
        observers = self.observers
        if not observers.keys().isdisjoint(map(type, events)):
            for event in events:
                observer = observers.get(type(event))
                if observer is not None:
                    observer(self, event)
        self.replay_buffer.extend(events, largest, kept)
        if self.tap.has_iterators:
            self.tap.accept(events, now)
        if events[-1].terminal or self.ended:
            self.ended = True
            self.tap.end()

    def iterate(self, event_filter: EventFilter) -> Iteration[Event]:
        """Make an iterator over the replay buffer and later events, up to the terminal event."""
        self.gate.check_loop()
        iterator: Iteration[Event] = Iteration(event_filter, until_terminal=True, gate=self.gate)
        iterator.prepend(self.replay_buffer.replay(self.job_id))
        self.replay_buffer.keep_recent()
        self.tap.add(iterator)
        return iterator


class JobStreams:
    """The streams of a client's jobs, together one consumer of the fan-out.

    Args:
        unknown: called with the id of a job without a stream; returns its stream, or ``None``.
        ended: called with a stream after its terminal event.

    Attributes:
        memory: the limit that all replay buffers share.
    """

    def __init__(
        self, unknown: Callable[[str], JobStream | None], ended: Callable[[JobStream], None]
    ) -> None:
        self.memory = ReplayMemory()
        self._unknown = unknown
        self._ended = ended
        self._open: dict[str, JobStream] = {}
        self._busy: dict[JobStream, None] = {}  # their iterators may have outstanding events

    def add(self, stream: JobStream) -> None:
        """Route the events of a job to its stream, until the job has ended."""
        self._open[stream.job_id] = stream

    def drop(self, job_id: str) -> None:
        """Stop routing the events of a job."""
        self._open.pop(job_id, None)

    def __iter__(self) -> Iterator[JobStream]:
        return iter(tuple(self._open.values()))

    def accept(self, events: list[Event], now: float, largest: int) -> None:
        self.memory.add(len(events), largest)
        envelopes = None
        if type(events) is EventRun:
            envelopes = events.envelopes
            if events.one_job:
                self._deliver(events[0].job_id, events, now, largest, envelopes)
                return
        streams = self._open
        kept: Kept = events if envelopes is None else envelopes
        for event, item in zip(events, kept, strict=True):
            stream = streams.get(event.job_id)  # type: ignore[arg-type]  # None is no job's id
            if stream is None or event.terminal or stream.tap.has_iterators:
                self._deliver(event.job_id, [event], now, largest, (item,))
                continue
            stream.heard = now
            observer = stream.observers.get(type(event))
            if observer is not None:
                observer(stream, event)
            stream.replay_buffer.append(event, largest, item)

    def _deliver(
        self, job_id: str | None, events: list[Event], now: float, largest: int, kept: Kept | None
    ) -> None:
        """Deliver events of one job, or of the session."""
        if job_id is None:
            gaps: list[Event] = [event for event in events if type(event) is Gap]
            if gaps:  # a gap of the session concerns every open job
                for stream in self:
                    self._extend(stream, gaps, now, largest)
            return
        known = self._open.get(job_id) or self._unknown(job_id)
        if known is None:
            return
        self._extend(known, events, now, largest, kept)
        if known.ended:
            self._open.pop(job_id, None)
            self._ended(known)

    def _extend(
        self,
        stream: JobStream,
        events: list[Event],
        now: float,
        largest: int,
        kept: Kept | None = None,
    ) -> None:
        stream.extend(events, now, largest, kept)
        if stream.tap.has_iterators:
            self._busy[stream] = None

    def takes(self, gap: Gap) -> bool:
        return any(
            stream.tap.takes(gap)
            for stream in self._open.values()
            if gap.job_id is None or gap.job_id == stream.job_id
        )

    @property
    def outstanding(self) -> int:
        # It is read for each frame, and of hundreds of jobs few have outstanding events.
        most = 0
        for stream in tuple(self._busy):
            outstanding = stream.tap.outstanding
            if not outstanding:
                self._busy.pop(stream, None)  # a garbage collection may have led here as well
            elif outstanding > most:
                most = outstanding
        return most

    def waiting(self) -> Iterator[Event]:
        for stream in tuple(self._busy):
            yield from stream.tap.waiting()

    def oldest(self, session_id: str) -> int | None:
        heads = [stream.tap.oldest(session_id) for stream in tuple(self._busy)]
        return min((number for number in heads if number is not None), default=None)

    def since(self) -> float | None:
        moments = [stream.tap.since() for stream in tuple(self._busy)]
        return min((moment for moment in moments if moment is not None), default=None)

    def iterators(self) -> Iterator[Iteration[Event]]:
        """The iterators over open jobs, and those over ended jobs with outstanding events."""
        for stream in dict.fromkeys((*self._open.values(), *self._busy)):
            yield from stream.tap.iterators()
