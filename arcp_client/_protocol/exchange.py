"""Sends requests and handles their answers (§6.6, §7).

A request ends by its answer, by a refusal, at its deadline, or with the session (rule S7 in
docs/explanation/rules.md). `correlation` finds the request that an answer belongs to; `pending`
keeps the requests.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Final

from arcp_client._protocol import actions
from arcp_client._protocol.correlation import Correlation
from arcp_client._protocol.jobs import JobState
from arcp_client._protocol.peer import Peer, View
from arcp_client._protocol.pending import Request
from arcp_client._protocol.plan_runner import PlanRunner
from arcp_client._protocol.receiver import Receiver
from arcp_client._protocol.recovery import Recovery
from arcp_client._wire import names
from arcp_client._wire.codec import ControlFrame
from arcp_client._wire.messages import Unsubscribe
from arcp_client._wire.replies import (
    Accepted,
    Subscribed,
    read_accepted,
    read_jobs,
    read_questions,
    read_refusal,
    read_subscribed,
    read_taken,
    reply_to,
)
from arcp_client.errors import (
    ArcpError,
    ClientClosed,
    FeatureNotNegotiated,
    LocalProtocolError,
    RequestError,
    RequestTimeout,
    request_error,
)

__all__ = ["Exchange", "error_of"]

_NEEDS: Final = {
    names.LIST_JOBS: names.LISTING,
    names.SUBSCRIBE: names.SUBSCRIPTIONS,
    names.PING: names.HEARTBEAT,
    names.ANSWER: names.ASKING,
    names.LIST_QUESTIONS: names.ASKING,
    names.SEND: names.STEERING,
}
"""The feature that a request needs (§6.2)."""
_REFUSALS: Final = frozenset(
    {
        names.PERMISSION_DENIED,
        names.JOB_NOT_FOUND,
        names.DUPLICATE_KEY,
        names.INVALID_REQUEST,
    }
)
"""Codes by which a `job.error` may refuse a request about a job that continues."""
UNSUBSCRIBING: Final = 256
"""The maximum number of jobs whose unsubscribe is tracked."""


class Exchange:
    """Sends the requests of one session and handles their answers.

    Args:
        view: the session.
        receiver: is notified of subscriptions.
        runner: is notified of late answers to the requests of recovery plans.
        recovery: is notified of acceptances and subscriptions.
    """

    def __init__(
        self, view: View, receiver: Receiver, runner: PlanRunner, recovery: Recovery
    ) -> None:
        self._negotiated = view.negotiated
        self._out = view.out
        self._jobs = view.jobs
        self._pending = view.pending
        self._barriers = view.barriers
        self._correlation = Correlation(view.pending, view.jobs)
        self._receiver = receiver
        self._runner = runner
        self._recovery = recovery
        self._unsubscribing: dict[JobState, None] = {}

    def read(self, frame: ControlFrame, now: float) -> bool:
        """Process an answer; return False if the type of the frame is none of an answer."""
        reader = self._READERS.get(frame.type)
        if reader is not None:
            reader(self, frame, now)
        return reader is not None

    @property
    def _peer(self) -> Peer:
        return self._receiver.peer

    # -- sending

    def flush(self, now: float) -> None:
        """Send the requests that may be sent now."""
        while self._negotiated.live and len(self._pending):
            ready = [r for r in self._peer.sendable() if not self._is_premature(r)]
            for request in ready:
                feature = request.needs or _NEEDS.get(request.kind)
                if feature is not None and not self._negotiated.offers(feature):
                    text = f"the runtime did not offer {feature!r} (§6.2)"
                    self.refuse(request, FeatureNotNegotiated(text), now)
                else:
                    self._send(request, now)
            if not ready:
                return

    def _is_premature(self, request: Request) -> bool:
        """Whether a subscription must wait until an earlier subscription to the job has ended."""
        job = self._jobs.table.get(request.job_id)
        return request.kind == names.SUBSCRIBE and job is not None and job.unsubscribing

    def _send(self, request: Request, now: float) -> None:
        if request.kind == names.SUBSCRIBE and request.job_id is not None:
            history = bool(request.payload.get("history"))
            self._receiver.subscribing(request.job_id, history=history)
        try:
            for message in self._peer.outgoing(request, now):
                if isinstance(message, Request):
                    self._out.frame(self._encoded(message), now, message)
                else:
                    self._out.control(message.type, message.wire(), now)
        except LocalProtocolError as error:
            self.refuse(request, error, now)

    def _encoded(self, request: Request) -> bytes:
        data, peer = request.encode(self._negotiated.session_id), self._peer
        limit = peer.max_line if self._negotiated.lines else peer.max_frame
        if limit is None or len(data) <= limit:
            return data
        # The runtime would close the link, and be sent the same again on the next one.
        way, other = "over a WebSocket", "refer to large data instead of sending it"
        if self._negotiated.lines:
            way, other = "over stdio", f"{other}, or connect to the runtime over a WebSocket"
        who = peer.name.capitalize()
        raise LocalProtocolError(
            f"{request.name} is {len(data)} bytes long; a {who} runtime takes {limit} {way}:"
            f" {other}"
        )

    # -- unsubscribing

    def unsubscribe(self, job_id: str, now: float) -> None:
        """End a subscription (§7.6). The runtime does not reply.

        The link may be lost before the runtime has read the message. So the message is sent on
        every link until a barrier (`Barriers`) after it is passed. Until then, events of the job
        are dropped. A new subscription to the job waits too, because its events could not be told
        from those of the old one.
        """
        job = self._jobs.state(job_id)
        job.unsubscribing = True
        job.unsubscribe_barrier = None
        self._unsubscribing.pop(job, None)
        self._unsubscribing[job] = None
        if len(self._unsubscribing) > UNSUBSCRIBING:
            self._unsubscribed(next(iter(self._unsubscribing)))
        self.send_unsubscribes(now)

    def send_unsubscribes(self, now: float) -> None:
        """Send the unsubscribes that were not sent on this link, and a barrier after each."""
        if not self._negotiated.live:
            return
        jobs = [job for job in self._unsubscribing if job.unsubscribe_barrier is None]
        for job in jobs:
            message = Unsubscribe(job_id=job.job_id)
            self._out.control(names.UNSUBSCRIBE, message.wire(), now)
        if not jobs:
            return
        if self._negotiated.offers(names.HEARTBEAT):
            nonce = self._barriers.set(lambda now: self._all_unsubscribed(nonce), now)
            for job in jobs:
                job.unsubscribe_barrier = nonce
        else:
            for job in jobs:
                self._unsubscribed(job)

    def _all_unsubscribed(self, nonce: str) -> None:
        for job in tuple(self._unsubscribing):
            if job.unsubscribe_barrier == nonce:
                self._unsubscribed(job)

    def _unsubscribed(self, job: JobState) -> None:
        self._unsubscribing.pop(job, None)
        job.unsubscribing = False
        job.unsubscribe_barrier = None
        self._jobs.tidy(job)

    def link_lost(self) -> None:
        """Send all tracked unsubscribes and all requests again on the next link."""
        for job in self._unsubscribing:
            job.unsubscribe_barrier = None
        self._pending.unsend()

    def restarted(self) -> None:
        """Drop the state of subscriptions, because a new session has none."""
        for job in tuple(self._unsubscribing):
            self._unsubscribed(job)

    # -- ends of requests

    def refuse(self, request: Request, error: ArcpError, now: float) -> None:
        """End a request with an error."""
        if self._pending.remove(request):
            self._unanswered(request, error, now)

    def expire(self, now: float) -> None:
        """End the requests that have timed out. Late answers still belong to them (rule S14)."""
        late = self._pending.expire(now)
        for request, error in late:
            self._unanswered(request, error, now)
        for request, _ in late:
            self._pending.keep(request)
        if self._negotiated.live and self._negotiated.offers(names.HEARTBEAT):
            unasked = self._pending.take_unasked()
            if unasked:
                self._barriers.set(lambda now: self._read(unasked), now)

    def _read(self, late: list[Request]) -> None:
        """Mark requests as read by the runtime: later answers without a name are not theirs."""
        for request in late:
            request.waits = True

    def close(self, cause: ArcpError | None) -> None:
        """End every request, because the session is over."""
        for request in self._pending:
            self._pending.remove(request)
            if not request.orphaned and request.owner is None:
                # A new exception for each: a shared one would collect their tracebacks.
                error = copy.copy(cause) if cause else ClientClosed("the client was closed")
                self._out.emit(actions.Refused(request, error))

    def job_ended(self, job_id: str, now: float) -> None:
        """Answer the pending cancels of a job that has ended."""
        for request in self._pending:
            if request.kind == names.CANCEL and request.job_id == job_id:
                self._answer(request, None, now)

    def _answer(self, request: Request, value: object, now: float) -> None:
        self._pending.remove(request)
        if request.late:
            self._out.report(
                f"the answer to {request.name} arrived after its deadline", job_id=request.job_id
            )
            if request.owner is self._runner and isinstance(value, Accepted):
                self._runner.accepted_late(request, value, now)
            return
        self._peer.settled(request, confirmed=True)
        if request.owner is not None:
            request.owner.answered(request, value, now)
            return
        if not request.orphaned:
            self._out.emit(actions.Replied(request, value))
        if isinstance(value, Subscribed):
            self._recovery.watched(self._peer, request, value, now)

    def _unanswered(self, request: Request, error: ArcpError, now: float) -> None:
        if request.late:
            self._out.report(
                f"the answer to {request.name} arrived after its deadline: {error}",
                error,
                job_id=request.job_id,
            )
            return
        late = isinstance(error, RequestTimeout) and bool(request.ids)
        self._peer.settled(request, confirmed=False, late=late)
        if request.kind == names.SUBSCRIBE and request.job_id is not None:
            self._receiver.unsubscribed(request.job_id, late=late)
            wanted = self._jobs.get(request.job_id) is not None
            if late and not wanted and not self._jobs.has_ended(request.job_id):
                self.unsubscribe(request.job_id, now)  # it may have been read all the same
        if request.owner is not None:
            request.owner.refused(request, error, now)
        elif not request.orphaned:
            self._out.emit(actions.Refused(request, error))

    # -- replies

    def _accepted(self, frame: ControlFrame, now: float) -> None:
        accepted = read_accepted(frame)
        if accepted is None:
            self._out.report("a job.accepted names no job; it was ignored")
            return
        child = accepted.parent_job_id is not None or accepted.delegate_id is not None
        request = self._correlation.answered_by(frame)
        if child and request is not None and reply_to(frame) is None:
            request = None  # unasked for: a delegated job, not an answer to a submit
        if request is not None and request.owner is not None:
            self._answer(request, accepted, now)
            return
        here = self._negotiated.session_id
        elsewhere = bool(frame.session_id) and frame.session_id != here
        self._out.emit(
            actions.JobKnown(
                accepted, submitted=request is not None, request=request, elsewhere=elsewhere
            )
        )
        if self._jobs.has_ended(accepted.job_id):
            job = JobState(accepted.job_id)  # its end was delivered before
        else:
            job = self._jobs.learn(accepted.job_id)
        job.agent = accepted.agent
        if request is None:
            job.announced = True
            return
        job.submitted = True
        job.origin_session = frame.session_id or here
        job.key = request.key
        job.payload = request.payload
        job.trace_id = request.trace_id
        request.job_id = accepted.job_id
        self._answer(request, accepted, now)
        if self._jobs.get(accepted.job_id) is job:
            self._recovery.accepted(self._peer, job, accepted, request, now, elsewhere=elsewhere)

    def _subscribed(self, frame: ControlFrame, now: float) -> None:
        subscribed = read_subscribed(frame)
        request = self._correlation.answered_by(frame)
        if subscribed is None or request is None:
            self._out.report("a job.subscribed that answers no request was ignored")
            return
        again = self._is_told_again(frame, request, subscribed.job_id)
        if again:
            self._receiver.forget(subscribed.job_id)
            self._jobs.reopen(subscribed.job_id)
            self._receiver.dedup.requested(self._jobs.learn(subscribed.job_id), history=True)
        if not request.orphaned:
            self._out.emit(
                actions.JobKnown(subscribed, submitted=False, request=request, again=again)
            )
        self._answer(request, subscribed, now)

    def _is_told_again(self, frame: ControlFrame, request: Request, job_id: str) -> bool:
        """Whether the whole history of a job follows that has ended since it was requested.

        The end was in a replay that was on its way. If the request was sent over several links, it
        may have been in a history that answers an earlier sending.
        """
        return (
            request.owner is None
            and self._peer.confirms_first
            and len(request.ids) == 1
            and bool(request.payload.get("history"))
            and frame.payload.get("replayed") is True
            and self._jobs.has_ended(job_id)
        )

    def _page(self, frame: ControlFrame, now: float) -> None:
        request = self._correlation.answered_by(frame)
        if request is not None:
            self._answer(request, read_jobs(frame), now)

    def _cancelled(self, frame: ControlFrame, now: float) -> None:
        request = self._correlation.answered_by(frame)
        if request is not None:
            self._answer(request, None, now)

    def _taken(self, frame: ControlFrame, now: float) -> None:
        request = self._correlation.answered_by(frame)
        if request is not None:
            self._answer(request, read_taken(frame), now)

    def _queued(self, frame: ControlFrame, now: float) -> None:
        request = self._correlation.answered_by(frame)
        if request is not None:
            self._answer(request, names.text_of(frame.payload.get("state")) or "", now)

    def _questions(self, frame: ControlFrame, now: float) -> None:
        request = self._correlation.answered_by(frame)
        if request is not None:
            self._answer(request, read_questions(frame), now)

    def _pong(self, frame: ControlFrame, now: float) -> None:
        self._barriers.passed(frame.payload.get("ping_nonce"), now)
        request = self._correlation.answered_by(frame)
        if request is not None:
            self._answer(request, now, now)

    def cancel_read(self, request: Request, now: float) -> None:
        """Answer a cancel that the runtime has read without refusing it."""
        if request in self._pending:
            self._answer(request, now, now)
            assert request.job_id is not None
            self._recovery.cancelled(self._peer, request.job_id, now)

    # -- refusals

    def refused(self, frame: ControlFrame, now: float, *, named: bool = False) -> bool:
        """Handle an error. Returns whether it refuses a request.

        With ``named``, it can refuse only the request that it names: an error with such a code may
        concern the session instead.
        """
        find = self._correlation.named_by if named else self._correlation.refused_by
        request = find(frame)
        if request is None:
            return False
        self.refuse(request, error_of(frame), now)
        return True

    def refuses(self, frame: ControlFrame) -> bool:
        """Whether a ``job.error`` refuses a request, as some runtimes do, and ends no job."""
        pending = self._pending
        job_id = frame.job_id or frame.payload.get("job_id")
        if not isinstance(job_id, str) or self._correlation.named_by(frame) is not None:
            return True
        code = frame.payload.get("code")
        if code == names.DUPLICATE_KEY and pending.submitting():
            return True  # it names the running job that has the key
        about = pending.about(job_id)
        if self._jobs.get(job_id) is None and not self._jobs.has_ended(job_id) and about is None:
            # A made-up id.
            return pending.submitting() and self._peer.refuses_submit(code)
        if self._peer.ends_by_number(frame):
            return False  # numbered, and an end: the job's own, whatever else is being asked
        if code == names.JOB_NOT_FOUND and about is None:
            # A resume may bring the refusal of a subscription, which waits to be sent again.
            return any(request.job_id == job_id for request in self._pending.waiting())
        return code in _REFUSALS and about is not None

    _READERS: Final[Mapping[str, Callable[[Exchange, ControlFrame, float], None]]] = {
        names.ACCEPTED: _accepted,
        names.SUBSCRIBED: _subscribed,
        names.JOBS: _page,
        names.CANCELLED: _cancelled,
        names.PONG: _pong,
        names.ANSWER_TAKEN: _taken,
        names.QUEUED: _queued,
        names.QUESTIONS: _questions,
    }


def error_of(frame: ControlFrame) -> RequestError:
    """The exception for a refusal."""
    refusal = read_refusal(frame)
    return request_error(
        refusal.code, refusal.message, retryable=refusal.retryable, details=refusal.details
    )
