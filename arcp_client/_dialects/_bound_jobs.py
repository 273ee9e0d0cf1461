"""Recovers jobs of runtimes that bind a job to the link over which it was submitted.

After that link is lost, the job keeps running, but the runtime drops its events. So on each new
link the client subscribes to the job again, and reports that events may be lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from arcp_client._protocol.jobs import JobState
from arcp_client._protocol.peer import AcceptanceContext, Peer
from arcp_client._protocol.pending import Request
from arcp_client._protocol.plans import Recover
from arcp_client._wire import names
from arcp_client._wire.messages import Message, Unsubscribe

__all__ = ["BoundJobs"]


class BoundJobs(Peer):
    """A runtime that sends the events of a job over one link only.

    Attributes:
        keeps_dead_subscriptions: a subscription stays bound to a lost link. The resumed session
            must end the subscription before it can subscribe again.
        overtaken_histories: a terminal message may arrive before the history of its job.
    """

    may_lose_events: ClassVar[bool] = True
    poll_if_silent: ClassVar[bool] = True
    may_fall_silent: ClassVar[bool] = True
    doubts_acceptances: ClassVar[bool] = True
    keeps_dead_subscriptions: ClassVar[bool] = False
    overtaken_histories: ClassVar[bool] = False

    def outgoing(self, request: Request, now: float) -> Iterator[Message | Request]:
        if request.kind == names.SUBSCRIBE and self.keeps_dead_subscriptions:
            resubscribe = request.resubscribe if request.owner is not None else bool(request.ids)
            if resubscribe and request.job_id is not None:
                yield Unsubscribe(job_id=request.job_id)
        yield from super().outgoing(request, now)

    def after_resume(self, job: JobState) -> Recover | None:
        # The resume replays what the runtime kept of the session's own jobs; a history repeats it.
        history = not job.submitted and self.wants_history(job)
        return Recover(
            history=history,
            after=job.resume_after if history else None,
            may_have_lost_events=self._loses_events and not history,
            resubscribe=self.keeps_dead_subscriptions,
        )

    @property
    def _loses_events(self) -> bool:
        """Whether a job keeps running after its link is lost, while its events are dropped."""
        return not self.session_ends_jobs

    def after_new_session(self, job: JobState) -> Recover | None:
        # The history has the retained events of the job; the lost ones follow it.
        history = self.wants_history(job)
        return Recover(
            history=history,
            after=job.resume_after if history else None,
            may_have_lost_events=self._loses_events and job.submitted,
        )

    def after_acceptance(
        self, job: JobState, acceptance: AcceptanceContext, now: float
    ) -> Recover | None:
        if acceptance.elsewhere:
            return Recover(
                history=True,
                may_have_lost_events=self._loses_events,
                hold_terminal=self.overtaken_histories,
            )
        if acceptance.sent_before:
            return Recover(
                history=False,
                may_have_lost_events=self._loses_events,
                resubscribe=self.keeps_dead_subscriptions,
                hold_terminal=self.overtaken_histories,
            )
        return None
