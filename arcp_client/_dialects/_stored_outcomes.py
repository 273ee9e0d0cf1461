"""Fetches outcomes from runtimes that store them under the job's idempotency key.

Such a runtime answers a submit under the key of an ended job with that job's terminal message. A
resume may also bring this stored message. Its number then follows that of the last event that the
runtime kept, as if no event were missing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import msgspec

from arcp_client._protocol.jobs import JobState
from arcp_client._protocol.peer import Incoming, Peer, Received
from arcp_client._protocol.plans import AwaitTerminal, Means, Recover, Resubmit
from arcp_client._wire import names
from arcp_client._wire.codec import ControlFrame

__all__ = ["StoredOutcomes"]


class StoredOutcomes(Peer):
    """A runtime that stores the outcomes of jobs under their idempotency keys."""

    transparent = False
    doubts_acceptances: ClassVar[bool] = False

    def means(self, job: JobState) -> Means:
        resubmit = job.key is not None and job.payload is not None
        return msgspec.structs.replace(super().means(job), resubmit=resubmit)

    def outcome_wanted(self, job: JobState) -> Recover:
        return msgspec.structs.replace(super().outcome_wanted(job), hold_terminal=True)

    def incoming(self, frame: Incoming, data: bytes, now: float) -> Iterable[Received]:
        if isinstance(frame, ControlFrame) and frame.type in names.TERMINALS:
            self._announce_unknown(frame)
        yield from super().incoming(frame, data, now)

    def _announce_unknown(self, frame: ControlFrame) -> None:
        """Report lost events at the end of a job whose acceptance may be lost with a link."""
        jobs, job_id = self.view.jobs, frame.job_id
        if job_id is None or jobs.get(job_id) is not None or jobs.has_ended(job_id):
            return
        if any(r.kind == names.SUBMIT and r.was_sent_before for r in self.view.pending):
            self.view.receiver.events_lost(job_id)

    def is_stored(self, frame: Incoming) -> bool:
        """Whether a frame is a stored outcome, which has a number of the session."""
        if not isinstance(frame, ControlFrame):
            return False
        if frame.session_id != self.view.negotiated.session_id:
            return True
        job = self.view.jobs.get(frame.job_id)
        running = job.recovering if job is not None else None
        return running is not None and isinstance(running.step, Resubmit | AwaitTerminal)
