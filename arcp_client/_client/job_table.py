"""Keeps the records and handles of the jobs that a client's session knows.

The table keeps open jobs, the last 256 jobs that ended, and each job whose handle the application
still holds.
"""

from __future__ import annotations

import logging
import weakref
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property

from arcp_client._attempts import Attempts
from arcp_client._client.submission import Submission
from arcp_client._dispatch.early_events import EVENTS, EarlyEvents
from arcp_client._dispatch.jobstreams import JobStream, JobStreams
from arcp_client._jobrecord import JobOwner, JobRecord
from arcp_client._log_fields import log_fields
from arcp_client._wire.replies import Accepted, Subscribed
from arcp_client.errors import ArcpError
from arcp_client.events import Completed, Failed, ResultChunk
from arcp_client.job import Job, JobHandle, JobView
from arcp_client.models import EndedJob, OpenJob

__all__ = ["JobTable"]

_log = logging.getLogger("arcp_client.client")

_RECENT = 256


class JobTable:
    """The records of one client.

    Args:
        make_owner: makes the object through which jobs use the parts of the client.

    Attributes:
        streams: the consumer that routes events to the records.
        retried: the jobs that may be submitted again.
    """

    def __init__(self, make_owner: Callable[[], JobOwner]) -> None:
        self._make_owner = make_owner
        self._open: dict[str, JobRecord] = {}
        self.retried: dict[Attempts[JobRecord], None] = {}  # an empty set is three times as large
        self.streams = JobStreams(unknown=self._unknown, ended=self._ended)

    # Most clients of a process may be idle; these are made for the first job.

    @cached_property
    def _owner(self) -> JobOwner:
        return self._make_owner()

    @cached_property
    def _keys(self) -> dict[str, tuple[str, JobRecord]]:
        return {}

    @cached_property
    def _recent(self) -> OrderedDict[str, JobRecord]:
        return OrderedDict()

    @cached_property
    def _early_events(self) -> EarlyEvents:
        return EarlyEvents(in_use=self._in_use, drop=self._discard)

    @cached_property
    def _held(self) -> weakref.WeakValueDictionary[str, JobRecord]:
        return weakref.WeakValueDictionary()

    @cached_property
    def _handles(self) -> weakref.WeakValueDictionary[str, JobHandle]:
        return weakref.WeakValueDictionary()

    @cached_property
    def _expected(self) -> Counter[str]:
        return Counter()

    # -- looking up

    def get(self, job_id: str) -> JobRecord | None:
        """The record of a job; ``None`` if the session does not know it."""
        return self._open.get(job_id) or self._held.get(job_id)

    def record(self, job_id: str) -> JobRecord:
        """The record of a job that the runtime announced or a caller named. Made on first use."""
        record = self.get(job_id)
        if self._early_events.claim(job_id) and record is not None and job_id not in self._expected:
            record.replay_buffer.limit()
        if record is None:
            return self._follow(JobRecord(job_id, self._owner, self.streams.memory))
        if job_id not in self._open and not record.over:
            self._follow(record)  # it was dropped, and the application still holds a handle
        return record

    def _follow(self, record: JobRecord) -> JobRecord:
        self._open[record.job_id] = record
        self._held[record.job_id] = record
        self.streams.add(record)
        return record

    def handle(self, record: JobRecord) -> JobHandle:
        """The handle of a job: the same object while the application holds it."""
        kind = Job if record.submitted else JobView if record.subscribed else JobHandle
        handle = self._handles.get(record.job_id)
        if type(handle) is not kind:
            handle = self._handles[record.job_id] = kind(record)
        return handle

    def job(self, record: JobRecord) -> Job:
        """The handle of a job that this client submitted."""
        handle = self.handle(record)
        assert isinstance(handle, Job)
        return handle

    def open_records(self) -> list[JobRecord]:
        """The records of the jobs whose end is not known."""
        return [record for record in self._open.values() if not record.over]

    def open(self) -> list[Job]:
        """The submitted jobs whose outcome is not known yet."""
        return [self.job(record) for record in self._open.values() if record.submitted]

    def find_equal(self, submission: Submission) -> Job | None:
        """The open job of a submission with the same key and parameters."""
        fingerprint, record = self._keys.get(submission.key, (None, None))
        if record is None or fingerprint != submission.fingerprint or record.over:
            return None
        return self.job(record)

    # -- changes

    def announce(self, reply: Accepted | Subscribed, *, submitted: bool) -> JobRecord:
        """Record a job from its acceptance or its confirmed subscription.

        Args:
            reply: the message of the runtime.
            submitted: this client submitted the job.
        """
        record = self.record(reply.job_id)
        record.describe(reply)
        if isinstance(reply, Subscribed) and not (record.subscribed or record.submitted):
            record.expect_history()
        record.submitted = record.submitted or submitted
        record.subscribed = record.subscribed or isinstance(reply, Subscribed)
        if isinstance(reply, Accepted) and reply.parent_job_id is not None:
            parent = self.get(reply.parent_job_id)
            if parent is not None:
                parent.delegated(reply.job_id, reply.agent)
        return record

    def accept(self, job_id: str, submission: Submission) -> Job:
        """Record the accepted submit of a job."""
        record = self.record(job_id)
        record.submitted = True
        record.agent = record.agent or submission.agent
        _log.info("job %s (%s) submitted", job_id, record.agent, extra=log_fields(job=job_id))
        if not record.over:
            record.key = submission.key
            self._keys[submission.key] = (submission.fingerprint, record)
        return self.job(record)

    def resume(self, job: OpenJob, chunks: Iterable[ResultChunk]) -> None:
        """Restore an open job of an earlier process, with the stored chunks of its result."""
        record = self.record(job.job_id)
        record.submitted = record.resumed = True
        record.expect_history()
        record.agent = job.agent
        record.status = "running"
        record.key = job.idempotency_key
        record.assembler.restore(chunks)
        self._keys[job.idempotency_key] = (job.payload_hash, record)

    def recall(
        self, job: EndedJob, event: Completed | Failed, chunks: Iterable[ResultChunk]
    ) -> None:
        """Restore an ended job of an earlier process, with its outcome and its chunks."""
        record = JobRecord(job.job_id, self._owner, self.streams.memory)
        record.submitted = record.resumed = True
        record.agent = job.agent
        record.expect_history()
        record.recall(event, chunks)
        self._held[job.job_id] = record
        self._release(record)

    @contextmanager
    def expect_history(self, job_id: str) -> Iterator[None]:
        """Inside the ``with`` block, which requests a job's history, keep more of its events."""
        self._expected[job_id] += 1
        try:
            yield
        finally:
            self._expected[job_id] -= 1
            self._expected += Counter()  # removes counts of 0

    def reopen(self, record: JobRecord) -> JobRecord:
        """Replace the record of an ended job by a new one, which gets the history."""
        self._recent.pop(record.job_id, None)
        return self._follow(JobRecord(record.job_id, self._owner, self.streams.memory))

    def restore(self, record: JobRecord) -> None:
        """Undo `reopen`, because the history was not sent."""
        self.forget(record.job_id)
        self._held[record.job_id] = self._recent[record.job_id] = record

    def forget(self, job_id: str) -> None:
        """Close the record of a job that gets no more events."""
        record = self._open.pop(job_id, None)
        self.streams.drop(job_id)
        if record is not None:
            self._release(record)

    def close(self, error: Callable[[], ArcpError]) -> None:
        """Let every wait for a job fail, because the client has ended."""
        for attempts in tuple(self.retried):
            attempts.close(error)
        for record in tuple(self._open.values()):
            record.lose(error)
        self._open.clear()
        self._keys.clear()
        self._early_events.close()

    def _unknown(self, job_id: str) -> JobStream | None:
        """Make a stream for early events of an unknown job (rule D12); ``None`` at the limit."""
        if not self._early_events.admits(job_id):
            return None
        record = self._follow(JobRecord(job_id, self._owner, self.streams.memory))
        if job_id in self._expected:
            record.replay_buffer.keep_history()
        else:
            record.replay_buffer.limit(EVENTS)
        return record

    def _discard(self, job_id: str) -> None:
        self._open.pop(job_id, None)
        self.streams.drop(job_id)

    def _in_use(self, job_id: str) -> bool:
        record = self._open.get(job_id)
        return record is not None and record.in_use

    def _ended(self, stream: JobStream) -> None:
        self._early_events.claim(stream.job_id)
        record = self._open.pop(stream.job_id, None)
        if record is not None:
            fields = log_fields(job=record.job_id)
            _log.info("job %s (%s): %s", record.job_id, record.agent, record.status, extra=fields)
            self._release(record)

    def _release(self, record: JobRecord) -> None:
        if record.key is not None:
            self._keys.pop(record.key, None)
        self._recent[record.job_id] = record
        if len(self._recent) > _RECENT:
            self._recent.popitem(last=False)
