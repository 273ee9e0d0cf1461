"""Collects the facts about the jobs of a client; `_verdict` decides what each job is doing.

Times are measured by the clock of the event loop, which never jumps. So neither a wrong clock of
the runtime nor a change of this machine's clock makes a job look silent.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from arcp_client import _verdict
from arcp_client._client.consumers import Consumers
from arcp_client._client.engine import SessionEngine
from arcp_client._client.job_table import JobTable
from arcp_client._client.states import States
from arcp_client._job_waits import Moment, Open
from arcp_client._jobrecord import JobRecord
from arcp_client._verdict import Awaited, FactsOfClient, FactsOfJob
from arcp_client.models import Verdict
from arcp_client.state import Closed, Connecting, Live, Reconnecting

__all__ = ["Verdicts"]

_SLOWED = 1.0
"""Seconds for which the reader must have paused; shorter pauses are usual."""


class Verdicts:
    """The verdicts on the jobs of one client.

    Args:
        states: the state of the link.
        consumers: say whether they keep the client from reading.
        jobs: the records of the jobs.
        engine: the session.
    """

    def __init__(
        self, states: States, consumers: Consumers, jobs: JobTable, engine: SessionEngine
    ) -> None:
        self._states = states
        self._consumers = consumers
        self._jobs = jobs
        self._engine = engine

    def of(self, record: JobRecord) -> Verdict:
        """What a job is doing."""
        now = self._now()
        return _verdict.verdict_of(self._job(record, now), self._client(now), now.wall)

    def open(self) -> dict[str, Verdict]:
        """What each job without a known end is doing."""
        now = self._now()
        client = self._client(now)
        return {
            record.job_id: _verdict.verdict_of(self._job(record, now), client, now.wall)
            for record in self._jobs.open_records()
        }

    def _now(self) -> _Now:
        loop = self._states.loop
        return _Now(0.0 if loop is None else loop.time())

    # ------------------------------------------------------------------ facts

    def _client(self, now: _Now) -> FactsOfClient:
        reader = self._consumers.back_pressure
        paused_at = reader.paused_at
        slowed = None
        if paused_at is not None and now.loop - paused_at >= _SLOWED:
            slowed = Awaited(self._consumers.slowest(), now.when(paused_at))
        info = self._engine.info
        return FactsOfClient(
            down=self._down(now),
            slowed=slowed,
            heartbeat=None if info is None else info.heartbeat_interval,
        )

    def _down(self, now: _Now) -> Awaited | None:
        match self._states.now:
            case Live():
                return None
            case Reconnecting(cause=cause):
                why = str(cause)
            case Connecting(cause=failed):
                why = "connecting" if failed is None else str(failed)
            case Closed(cause=ended):
                why = "the client is closed" if ended is None else str(ended)
            case _:
                why = ""
        return Awaited(why, now.when(self._states.since))

    def _job(self, record: JobRecord, now: _Now) -> FactsOfJob:
        status, since = self._status(record)
        waits = record.waits
        if waits is None:
            call = question = child = None
        else:
            call, question, child = waits.call, waits.question, self._child(record)
            since = since or waits.continued
        failure = record.failure
        return FactsOfJob(
            status=status,
            since=now.since(record, since or Moment(record.began)),
            failure="" if failure is None else f"{failure.code}: {failure.message}".strip(": "),
            question=now.wait(record, question),
            call=now.wait(record, call),
            child=now.wait(record, child),
            heard=self._heard(record, now),
        )

    def _status(self, record: JobRecord) -> tuple[str, Moment | None]:
        if record.over_at is not None or not record.over:
            begun = record.status == "pending" and record.heard > 0
            return "running" if begun else record.status, record.over_at
        if record.unwatched or self._states.closed:
            return "running", None
        lost = record.status in ("pending", "running")
        return "lost" if lost else record.status, Moment(record.heard or record.began)

    def _child(self, record: JobRecord) -> Open | None:
        assert record.waits is not None
        for job_id, wait in record.waits.children:
            child = self._jobs.get(job_id)
            if child is not None and not child.over:
                return wait
        return None

    def _heard(self, record: JobRecord, now: _Now) -> datetime | None:
        if record.unwatched:
            return None
        # No event could arrive while there was no link, or while the client did not read.
        reads_since = max(self._states.since, self._consumers.back_pressure.resumed_at)
        heard = max(record.heard, record.began, reads_since)
        newest = record.replay_buffer.newest if heard <= record.history_until else None
        return now.since(record, Moment(heard, newest))


class _Now:
    """The present by two clocks: that of the event loop, and the wall clock."""

    def __init__(self, loop: float) -> None:
        self.loop = loop
        self.wall = datetime.now(UTC)

    def when(self, at: float) -> datetime:
        """A moment of the event loop, by the wall clock."""
        return self.wall - timedelta(seconds=max(self.loop - at, 0.0))

    def since(self, record: JobRecord, moment: Moment) -> datetime:
        """When something happened.

        Its arrival counts. If it arrived with a history, it may have happened long before, and the
        runtime's timestamp counts, whose clock may differ.
        """
        arrived = self.when(moment.arrived)
        if moment.ts is None or moment.arrived > record.history_until:
            return arrived
        ts = moment.ts if moment.ts.tzinfo is not None else moment.ts.replace(tzinfo=UTC)
        return min(arrived, ts)

    def wait(self, record: JobRecord, wait: Open | None) -> Awaited | None:
        """Something that is open, with its time."""
        return None if wait is None else Awaited(wait.what, self.since(record, wait.since))
