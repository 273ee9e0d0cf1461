"""Keeps the records and handles of the jobs that a client's session knows.

Open jobs are kept. So are the last 256 jobs that ended, and each job whose handle the application
still holds.
"""

from __future__ import annotations

import weakref
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from arcp_client._client.submission import Submission
from arcp_client._dispatch.early_events import EVENTS, EarlyEvents
from arcp_client._dispatch.jobstreams import JobStream, JobStreams
from arcp_client._jobrecord import JobOwner, JobRecord
from arcp_client._wire.replies import Accepted, Subscribed
from arcp_client.errors import ArcpError
from arcp_client.events import Completed, Failed, ResultChunk
from arcp_client.job import Job, JobHandle, JobView
from arcp_client.models import EndedJob, OpenJob

__all__ = ["JobTable"]

_RECENT = 256
_EXPECTED = 65536
"""Events that are kept of a history that comes before whoever asked for it has its answer."""


class JobTable:
    """The records of one client.

    Args:
        owner: what the jobs need of the client.

    Attributes:
        streams: the consumer that routes events to the records.
    """

    def __init__(self, owner: JobOwner) -> None:
        self._owner = owner
        self._open: dict[str, JobRecord] = {}
        self._recent: OrderedDict[str, JobRecord] = OrderedDict()
        self._held: weakref.WeakValueDictionary[str, JobRecord] = weakref.WeakValueDictionary()
        self._handles: weakref.WeakValueDictionary[str, JobHandle] = weakref.WeakValueDictionary()
        self._keys: dict[str, tuple[str, JobRecord]] = {}
        self._expected: Counter[str] = Counter()
        self.streams = JobStreams(unknown=self._unknown, ended=self._ended)
        self._early_events = EarlyEvents(in_use=self._in_use, drop=self._give_up)

    # -- looking up

    def get(self, job_id: str) -> JobRecord | None:
        """The record of a job, if the session has heard of it."""
        return self._open.get(job_id) or self._held.get(job_id)

    def record(self, job_id: str) -> JobRecord:
        """The record of a job, made if need be. The runtime, or a caller, told of it."""
        record = self.get(job_id)
        if self._early_events.claim(job_id) and record is not None and job_id not in self._expected:
            record.replay_buffer.limit()
        if record is None:
            return self._follow(JobRecord(job_id, self._owner, self.streams.memory))
        if job_id not in self._open and not record.over:
            self._follow(record)  # it had been given up, and somebody held on to it
        return record

    def _follow(self, record: JobRecord) -> JobRecord:
        self._open[record.job_id] = record
        self._held[record.job_id] = record
        self.streams.add(record)
        return record

    def handle(self, record: JobRecord) -> JobHandle:
        """The handle of a job: the same object for as long as somebody holds it."""
        kind = Job if record.mine else JobView if record.watched else JobHandle
        handle = self._handles.get(record.job_id)
        if type(handle) is not kind:
            handle = self._handles[record.job_id] = kind(record)
        return handle

    def job(self, record: JobRecord) -> Job:
        """The handle of a job that this client submitted."""
        handle = self.handle(record)
        assert isinstance(handle, Job)
        return handle

    def open(self) -> list[Job]:
        """The jobs of this client whose outcome is not known."""
        return [self.job(record) for record in self._open.values() if record.mine]

    def same(self, submission: Submission) -> Job | None:
        """The open job of an equal submission."""
        fingerprint, record = self._keys.get(submission.key, (None, None))
        if record is None or fingerprint != submission.fingerprint or record.over:
            return None
        return self.job(record)

    # -- what the session tells

    def known(self, told: Accepted | Subscribed, *, mine: bool) -> JobRecord:
        """The runtime told of a job."""
        record = self.record(told.job_id)
        record.describe(told)
        record.mine = record.mine or mine
        record.watched = record.watched or isinstance(told, Subscribed)
        if isinstance(told, Accepted) and told.parent_job_id is not None:
            parent = self.get(told.parent_job_id)
            if parent is not None and told.job_id not in parent.children:
                parent.children.append(told.job_id)
        return record

    def submitted(self, job_id: str, submission: Submission) -> Job:
        """A submit was accepted as this job."""
        record = self.record(job_id)
        record.mine = True
        record.agent = record.agent or submission.agent
        if not record.over:
            record.key = submission.key
            self._keys[submission.key] = (submission.fingerprint, record)
        return self.job(record)

    def resume(self, job: OpenJob, chunks: Iterable[ResultChunk]) -> None:
        """A job of an earlier process had not ended; these pieces of its result were kept."""
        record = self.record(job.job_id)
        record.mine = True
        record.agent = job.agent
        record.status = "running"
        record.key = job.idempotency_key
        record.assembler.restore(chunks)
        self._keys[job.idempotency_key] = (job.payload_hash, record)

    def recall(
        self, job: EndedJob, event: Completed | Failed, chunks: Iterable[ResultChunk]
    ) -> None:
        """A job had ended in an earlier process; its outcome and its streamed result were kept."""
        record = JobRecord(job.job_id, self._owner, self.streams.memory)
        record.mine = True
        record.agent = job.agent
        record.recall(event, chunks)
        self._held[job.job_id] = record
        self._release(record)

    @contextmanager
    def expecting(self, job_id: str) -> Iterator[None]:
        """Somebody asks for the history of a job, and will read it once there is an answer."""
        self._expected[job_id] += 1
        try:
            yield
        finally:
            self._expected[job_id] -= 1
            self._expected += Counter()  # forgets what is 0

    def again(self, record: JobRecord) -> JobRecord:
        """A job that has ended is told once more: the record that takes it in."""
        self._recent.pop(record.job_id, None)
        return self._follow(JobRecord(record.job_id, self._owner, self.streams.memory))

    def back(self, record: JobRecord) -> None:
        """It was not told again: what was known before counts."""
        self.forget(record.job_id)
        self._held[record.job_id] = self._recent[record.job_id] = record

    def forget(self, job_id: str) -> None:
        """Nothing more will come of it."""
        record = self._open.pop(job_id, None)
        self.streams.drop(job_id)
        if record is not None:
            self._release(record)

    def close(self, error: Callable[[], ArcpError]) -> None:
        """The client is over: nobody waits any longer."""
        for record in tuple(self._open.values()):
            record.lose(error)
        self._open.clear()
        self._keys.clear()
        self._early_events.close()

    def _unknown(self, job_id: str) -> JobStream | None:
        """An event came of a job that nobody told of (D12)."""
        if not self._early_events.admits(job_id):
            return None
        record = self._follow(JobRecord(job_id, self._owner, self.streams.memory))
        record.replay_buffer.limit(_EXPECTED if job_id in self._expected else EVENTS)
        return record

    def _give_up(self, job_id: str) -> None:
        self._open.pop(job_id, None)
        self.streams.drop(job_id)

    def _in_use(self, job_id: str) -> bool:
        record = self._open.get(job_id)
        return record is not None and record.in_use

    def _ended(self, stream: JobStream) -> None:
        self._early_events.claim(stream.job_id)
        record = self._open.pop(stream.job_id, None)
        if record is not None:
            self._release(record)

    def _release(self, record: JobRecord) -> None:
        if record.key is not None:
            self._keys.pop(record.key, None)
        self._recent[record.job_id] = record
        if len(self._recent) > _RECENT:
            self._recent.popitem(last=False)
