"""Uses the stored outcomes of runtimes that send a job's end again in answer to its submit.

The end is sent in answer to a submit under the job's key. A resume may bring such an end, too,
behind the last event of the job that was kept, as if none were missing.
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
    """A runtime that stores outcomes under their keys."""

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
        """The end of a job whose acceptance went over a link that died: events may be missing."""
        jobs, job_id = self.view.jobs, frame.job_id
        if job_id is None or jobs.get(job_id) is not None or jobs.has_ended(job_id):
            return
        if any(r.kind == names.SUBMIT and r.was_sent_before for r in self.view.pending):
            self.view.receiver.events_lost(job_id)

    def is_stored(self, frame: Incoming) -> bool:
        """Whether it is a stored outcome, which is numbered with the session's own events."""
        if not isinstance(frame, ControlFrame):
            return False
        if frame.session_id != self.view.negotiated.session_id:
            return True
        job = self.view.jobs.get(frame.job_id)
        running = job.recovering if job is not None else None
        return running is not None and isinstance(running.step, Resubmit | AwaitTerminal)
