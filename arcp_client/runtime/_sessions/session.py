"""Numbers the events of one session and keeps them, with or without a connection (§8.3).

`ServerSession.append` numbers an event, gives it to the event log and queues it, in one synchronous
step. `SubscriptionFeed` copies the events of a job into a session that subscribed to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from arcp_client._wire import names
from arcp_client._wire.stamp import FRAME, Record
from arcp_client.runtime._log.entries import Freed, Numbered, SessionState, Watch
from arcp_client.runtime._log.journal import Journal
from arcp_client.runtime._log.replay_buffers import JobHistory, SessionLog
from arcp_client.runtime._sessions.resume_tokens import ResumeTokens

__all__ = ["AttachedConnection", "Backlog", "ServerSession", "SubscriptionFeed"]

_UNSENT_HIGH = 512
"""Number of unsent events at which emitting agents start to wait."""
_UNSENT_LOW = 256
"""Number of unsent events at which waiting agents continue."""
_ROOM_EVENTS = 1024
_FREE_AT_ONCE = 1024
_FREE_LEAST = 64
_FREE_SHARE = 8
"""In one step, an eighth of the acknowledged events is freed, and 64 at least."""
_FREE_PAUSE = 0.005
"""Seconds between two steps."""
_ROOM_BYTES = 4 * 1024 * 1024


class AttachedConnection(Protocol):
    """The connection that sends a session's events."""

    cursor: int
    """The highest number passed to the link."""

    def wake(self) -> None:
        """Start sending."""

    def control(self, frame: bytes) -> None:
        """Queue a frame without a number, before all events."""

    def displace(self) -> None:
        """End, because another connection has taken over the session."""

    def overrun(self) -> None:
        """End, because the log has evicted unsent events."""


class ServerSession:
    """The state of a client's session, which survives its connections.

    Attributes:
        id: the session's id.
        principal: the principal that owns it.
        features: the features negotiated in the last handshake (§6.2).
        tokens: its resume tokens.
        log: its numbered events.
        outlet: the attached connection, if any.
        jobs: ids of the jobs submitted in it that have not ended.
        feeds: the subscriptions, by job id.
        acked: the highest number that the client acknowledged.
        sent: the highest number passed to any connection.
        keep_for: seconds for which sent events are kept for a client that does not send `ack`;
            ``None`` for a client that does, whose events are never freed because of their age.
        slow: whether its client was notified of its lag and has not caught up since.
        expired: whether it has ended and can no longer be resumed.
        lost: whether another replica holds it now.
    """

    def __init__(
        self,
        id: str,
        principal: str,
        log: SessionLog,
        *,
        lag_events: int = 1000,
        journal: Journal | None = None,
    ) -> None:
        self.id = id
        self._journal = journal
        self._lag_events = lag_events
        self.wire_id = id.encode("ascii")
        self.principal = principal
        self.features: frozenset[str] = frozenset()
        self.client = ""
        self.tokens = ResumeTokens()
        self.log = log
        self.outlet: AttachedConnection | None = None
        self.jobs: set[str] = set()
        self.feeds: dict[str, SubscriptionFeed] = {}
        self.acked = 0
        self.sent = 0
        self.slow = False
        self.expired = False
        self.lost = False
        self.expiry: asyncio.TimerHandle | None = None
        self.keep_for: float | None = None
        self._freed = 0
        self._freeing: asyncio.TimerHandle | None = None
        self._unsent_bytes = 0
        self._hungry: dict[SubscriptionFeed, None] = {}
        self._waiters: set[asyncio.Future[None]] = set()

    # ------------------------------------------------------------------------- in

    def append(self, record: Record) -> int:
        """Number, log and queue an event of another session's job, and store its number."""
        seq = self.number(record)
        if self._journal is not None:
            self._journal.number(self, Numbered(self.id, seq, record.job_id, record.index))
        return seq

    def number(self, record: Record) -> int:
        """Number, log and queue an event, without an ``await`` in between.

        With a journal, the caller stores the number, and the event is sent once the number is
        settled.
        """
        self.log.append(record)
        self._unsent_bytes += record.size
        return self._numbered(record)

    def _numbered(self, newest: Record) -> int:
        """Queue the events that were numbered; return the number of the newest one."""
        log = self.log
        seq = log.last
        if self._journal is None:
            log.settled = seq
        elif log.floor - self._freed >= _FREE_AT_ONCE:
            self._freed = log.floor
            self._journal.put(Freed(self.id, log.floor))
        outlet = self.outlet
        if outlet is not None:
            if self.keep_for is not None:
                log.free_older(newest.at - self.keep_for, outlet.cursor)
            if outlet.cursor < log.floor:
                outlet.overrun()
            elif self._journal is None:
                outlet.wake()
        return seq

    def receives(self, record: Record) -> bool:
        """Whether the session negotiated the feature of an event."""
        return record.needs is None or record.needs in self.features

    def take(self, record: Record) -> int:
        """Append an event if the session negotiated the event's feature; return the last number."""
        return self.append(record) if self.receives(record) else self.log.last

    def take_all(self, records: Sequence[Record]) -> None:
        """Do the same as `take` for each event, in less time for a history."""
        if self._journal is not None:
            for record in records:
                self.take(record)
            return
        features, append = self.features, self.log.append
        newest: Record | None = None
        for record in records:
            if record.needs is None or record.needs in features:
                append(record)
                self._unsent_bytes += record.size
                newest = record
        if newest is not None:
            self._numbered(newest)

    def settle(self, seq: int) -> None:
        """Allow sending up to a number, because all events up to it are stored."""
        self.log.settled = max(self.log.settled, seq)
        if self.outlet is not None:
            self.outlet.wake()

    def note(self) -> None:
        """Store the state that a resume needs."""
        if self._journal is not None:
            self._journal.put(self.state())

    def state(self) -> SessionState:
        """Return the state that a resume needs, as it is stored."""
        features, tokens = tuple(sorted(self.features)), tuple(self.tokens.hashes)
        return SessionState(self.id, self.principal, features, tokens, self.log.floor)

    def control(self, frame: bytes) -> None:
        """Send a frame without a number, if a connection is attached."""
        if self.outlet is not None:
            self.outlet.control(frame)

    # ------------------------------------------------------------------------ out

    @property
    def unsent(self) -> int:
        """Number of events that were not passed to a connection."""
        outlet = self.outlet
        return self.log.last - (self.sent if outlet is None else outlet.cursor)

    @property
    def lag(self) -> int:
        """Number of kept events that the client has not acknowledged; 0 without `ack` (§6.5)."""
        if names.ACKS not in self.features:
            return 0
        return self.log.last - max(self.acked, self.log.floor)

    @property
    def behind(self) -> bool:
        """Whether the client reads or acknowledges too slowly, so that its agents must wait.

        Agents do not wait for a client that has never acknowledged an event.
        """
        if self.outlet is None:
            return False
        if self.unsent > _UNSENT_HIGH:
            return True
        return self.acked > 0 and self.lag > self._lag_events

    @property
    def crowded(self) -> bool:
        """A cheap check: whether more events than usual are unsent or unacknowledged."""
        outlet = self.outlet
        if outlet is None:
            return False
        last = self.log.last
        return last - outlet.cursor > _UNSENT_HIGH or (
            last - self.acked > self._lag_events and self.lag > self._lag_events
        )

    @property
    def room(self) -> bool:
        """Whether events may be copied from a job's history into the log."""
        return min(self.spare) > 0

    @property
    def spare(self) -> tuple[int, int]:
        """How many events, and how many bytes, `room` is for."""
        return _ROOM_EVENTS - self.unsent, _ROOM_BYTES - self._unsent_bytes

    def sending(self, seq: int, record: Record) -> bytes:
        """Return the frame of an event that is being passed to the link."""
        if seq > self.sent:
            self.sent = seq
        self._unsent_bytes -= record.size
        return FRAME % (record.id, record.type, self.wire_id, record.job, seq, record.payload)

    def attach(self, outlet: AttachedConnection) -> None:
        """Attach a connection, which sends from its cursor on; displace the previous one."""
        previous, self.outlet = self.outlet, outlet
        if previous is not None and previous is not outlet:
            previous.displace()
        if self.expiry is not None:
            self.expiry.cancel()
            self.expiry = None
        self._unsent_bytes = self.log.bytes_after(outlet.cursor)
        outlet.wake()

    def lose(self) -> None:
        """Drop the link and store nothing more, because another replica holds the session."""
        self.lost = True
        self._journal = None
        outlet, self.outlet = self.outlet, None
        if outlet is not None:
            outlet.displace()
        self.progress()

    def detach(self, outlet: AttachedConnection) -> bool:
        """Detach an ended connection. False if another one had already taken over."""
        if self.outlet is not outlet:
            return False
        self.outlet = None
        self._unsent_bytes = self.log.bytes_after(self.sent)
        self.progress()
        return True

    def acknowledge(self, seq: int) -> bool:
        """Free processed events (§6.5); return False for a number that was never sent.

        Hundreds of old events are freed in several steps: at once, they would delay the new events
        of all sessions by several milliseconds.
        """
        if seq > self.sent:
            return False
        if seq > self.acked:
            self.acked = seq
            if self._freeing is None:
                if seq - self.log.floor > _FREE_LEAST:
                    self._free_soon()
                else:
                    self._free()
            if self._journal is not None:
                self._freed = seq
                self._journal.put(Freed(self.id, seq))
            if self.outlet is not None and self.outlet.cursor < seq:
                self.outlet.cursor = seq  # the client received them over an earlier connection
                self._unsent_bytes = self.log.bytes_after(seq)
            if self.slow and self.lag < self._lag_events / 2:
                self.slow = False
            self.progress()
        return True

    def _free(self) -> None:
        """Free some of the acknowledged events, the oldest first, and the others soon."""
        self._freeing = None
        left = self.acked - self.log.floor
        if self.log.free(self.acked, max(_FREE_LEAST, left // _FREE_SHARE)):
            self._free_soon()

    def _free_soon(self) -> None:
        self._freeing = asyncio.get_running_loop().call_later(_FREE_PAUSE, self._free)

    def stop(self) -> None:
        """Cancel the timers, because the session or its runtime has ended."""
        for timer in (self.expiry, self._freeing):
            if timer is not None:
                timer.cancel()
        self.expiry = self._freeing = None

    def progress(self) -> None:
        """Copy events from histories and wake waiting agents, after the client progressed."""
        if self._hungry and self.room:
            for feed in tuple(self._hungry):
                feed.push()
        if self._waiters and not self._holds():
            for waiter in self._waiters:
                _release(waiter)

    def _holds(self) -> bool:
        """Whether waiting agents must keep waiting."""
        return self.behind or (self.outlet is not None and self.unsent > _UNSENT_LOW)

    async def moved(self, timeout: float) -> None:
        """Wait until the client has caught up, at most ``timeout`` seconds.

        The client has caught up when the number of unsent events is well below the limit at which
        agents wait. So an agent is not woken for each batch, and then emits many events.
        """
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        self._waiters.add(waiter)
        timer = loop.call_later(timeout, _release, waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            self._waiters.discard(waiter)

    def watch(self, feed: SubscriptionFeed, ended: bool = False) -> None:
        """Store the beginning or the end of a feed."""
        if self._journal is not None:
            following = None if ended else feed.next
            self._journal.put(Watch(self.id, feed.job_id, following, feed.first))

    def backlog(self) -> Backlog:
        """The histories that are not numbered yet: each feed, and the end of its history."""
        return tuple((feed, feed.history.end) for feed in self._hungry)

    def hunger(self, feed: SubscriptionFeed, hungry: bool) -> None:
        """Note whether a feed waits for room."""
        if hungry:
            self._hungry[feed] = None
        else:
            self._hungry.pop(feed, None)


def _release(waiter: asyncio.Future[Any]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class SubscriptionFeed:
    """Delivers one job's events to a session that did not submit it (§7.6).

    It takes events from the job's history and numbers them in the session when there is room. Past
    and live events come from the same list, so a slow observer needs no memory besides its
    position. If the history no longer has the next event, the subscription ends with an error.

    Args:
        session: the observer.
        job_id: the job.
        history: the job's events.
        start: index of the first event to deliver.
        on_broken: called when the history no longer holds the next event.
        stop: index after the last event to deliver; ``None`` continues to the end of the job.
    """

    __slots__ = ("_on_broken", "_stop", "ended", "first", "history", "job_id", "next", "session")

    def __init__(
        self,
        session: ServerSession,
        job_id: str,
        history: JobHistory,
        start: int,
        on_broken: Callable[[SubscriptionFeed], None],
        stop: int | None = None,
    ) -> None:
        self.session = session
        self.job_id = job_id
        self.history = history
        self.first = start
        self.next = start
        self.ended = False
        self._stop = stop
        self._on_broken = on_broken

    def last_past(self) -> str:
        """The id of the last past event that it is about to deliver; empty if there is none."""
        history, end = self.history, self.history.end if self._stop is None else self._stop
        for index in range(end - 1, max(self.next, history.floor) - 1, -1):
            if self.session.receives(history[index]):
                return history[index].id.decode("ascii")
        return ""

    def push(self) -> None:
        """Deliver as many events as the session has room for."""
        session, history = self.session, self.history
        while self.next < history.end and not self.ended:
            if self.next == self._stop:
                self.end()
                break
            if self.next < history.floor:
                self.cut()
                return
            records = self._following()
            if not records:
                session.hunger(self, True)
                return
            self.next += len(records)
            session.take_all(records)
            if records[-1].terminal:
                session.jobs.discard(self.job_id)
                self.end()
        session.hunger(self, False)

    def _following(self) -> list[Record]:
        """The next events for which the session has room, up to a terminal one."""
        history, end = self.history, self.history.end if self._stop is None else self._stop
        events, size = self.session.spare
        records: list[Record] = []
        for index in range(self.next, min(end, self.next + events)):
            if size <= 0:
                break
            record = history[index]
            records.append(record)
            size -= record.size
            if record.terminal:
                break
        return records

    def cut(self) -> None:
        """End the feed and report it, because undelivered events are no longer in the history."""
        if not self.ended:
            self.end()
            self._on_broken(self)

    def end(self) -> None:
        """Stop delivering. Idempotent."""
        self.ended = True
        self.session.hunger(self, False)
        current = self.session.feeds.get(self.job_id)
        if current is self:
            del self.session.feeds[self.job_id]
            self.session.watch(self, ended=True)
        elif current is not None:  # this one delivered the history before it
            self.session.watch(current)


Backlog = tuple[tuple[SubscriptionFeed, int], ...]
"""Feeds whose events are not all numbered, and the index up to which they are awaited."""
