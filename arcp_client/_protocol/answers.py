"""Requests in, frames out; replies in, each to the request that it answers (§6.6, §7, S6, S7).

Every request ends: by its answer, by a refusal, by its deadline, or with the session. What one
runtime sends as a job's failure and means as a refusal is told apart here.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from arcp_client._protocol import effects
from arcp_client._protocol.correlation import Correlation
from arcp_client._protocol.jobs import KnownJob, KnownJobs
from arcp_client._protocol.leaving import Leaving
from arcp_client._protocol.ordering import Ordering
from arcp_client._protocol.outbox import Outbox
from arcp_client._protocol.requests import Request, Requests
from arcp_client._protocol.returns import Returns
from arcp_client._protocol.steps import Asking
from arcp_client._protocol.terms import Terms
from arcp_client._wire import dialect
from arcp_client._wire.codec import ControlFrame
from arcp_client._wire.ids import new_id, now_text
from arcp_client._wire.leases import flattened
from arcp_client._wire.messages import Ping, Unsubscribe
from arcp_client._wire.replies import (
    Accepted,
    Subscribed,
    read_accepted,
    read_jobs,
    read_refusal,
    read_subscribed,
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

__all__ = ["Answers"]

_NEEDS: Final = {
    dialect.LIST_JOBS: dialect.LISTING,
    dialect.SUBSCRIBE: dialect.SUBSCRIPTIONS,
    dialect.PING: dialect.HEARTBEAT,
}

_REFUSALS: Final = frozenset(
    {
        dialect.PERMISSION_DENIED,
        dialect.JOB_NOT_FOUND,
        dialect.DUPLICATE_KEY,
        dialect.INVALID_REQUEST,
    }
)
"""Codes that, in a job.error, may answer a request about a job that goes on."""

_SUBMIT_REFUSALS: Final = _REFUSALS | {
    dialect.AGENT_NOT_AVAILABLE,
    dialect.AGENT_VERSION_NOT_AVAILABLE,
    dialect.LEASE_SUBSET_VIOLATION,
    dialect.UNAUTHENTICATED,
}


class Answers:
    """The requests of one session and what becomes of them.

    Args:
        terms: what was agreed on.
        out: the way out, of frames and of what became of them.
        jobs: the jobs that the session knows.
        requests: those that wait for an answer.
        ordering: told of subscriptions.
        returns: asks on the session's own account, and is told of jobs that may be old ones.
        leaving: the jobs that are not to be subscribed to yet.
    """

    def __init__(
        self,
        terms: Terms,
        out: Outbox,
        jobs: KnownJobs,
        requests: Requests,
        ordering: Ordering,
        returns: Returns,
        leaving: Leaving,
    ) -> None:
        self._terms = terms
        self._out = out
        self._jobs = jobs
        self._requests = requests
        self._correlation = Correlation(requests, jobs)
        self._ordering = ordering
        self._returns = returns
        self._leaving = leaving
        self.readers: Final[Mapping[str, Callable[[ControlFrame, float], None]]] = {
            dialect.ACCEPTED: self._accepted,
            dialect.SUBSCRIBED: self._subscribed,
            dialect.JOBS: self._page,
            dialect.CANCELLED: self._cancelled,
            dialect.PONG: self._pong,
        }

    # -- the way out

    def flush(self, now: float) -> None:
        """Send the requests that may go out now."""
        while self._terms.live:
            ready = [
                request
                for request in self._requests.ready(one_at_a_time=self._terms.dialect.one_at_a_time)
                if request.kind != dialect.SUBSCRIBE or request.job_id not in self._leaving
            ]
            for request in ready:
                feature = _NEEDS.get(request.kind)
                if feature is not None and not self._terms.offer(feature):
                    text = f"the runtime did not offer {feature!r} (§6.2)"
                    self.refuse(request, FeatureNotNegotiated(text), now)
                else:
                    self._send(request, now)
            if not ready:
                return

    def _send(self, request: Request, now: float) -> None:
        ends_with = None
        if request.kind == dialect.SUBSCRIBE and request.job_id is not None:
            ends_with = self._prepare(request, request.job_id, now)
        if self._terms.dialect.flat_leases and isinstance(request.payload, msgspec.Raw):
            request.payload = flattened(request.payload)
        data, limit = request.encode(self._terms.session_id), self._terms.longest
        if limit is not None and len(data) > limit:
            # The runtime would close the link, and be sent the same again on the next one.
            self.refuse(request, self._too_long(request, len(data), limit), now)
            return
        self._out.frame(data, now, request)
        if request.kind == dialect.CANCEL and self._terms.dialect.one_at_a_time:
            # There may be no answer but the job's end. The pong says that no refusal came.
            request.nonce = new_id()
            self._ping(request.nonce, now)
        if ends_with is not None:
            self._ping(ends_with, now)

    def _too_long(self, request: Request, size: int, limit: int) -> LocalProtocolError:
        """What is too long, for whom, and what helps."""
        way, other = "over a WebSocket", "refer to large data instead of sending it"
        if self._terms.lines:
            way, other = "over stdio", f"{other}, or connect to the runtime over a WebSocket"
        who = self._terms.dialect.name.capitalize()
        text = f"{request.name} is {size} bytes long; a {who} runtime takes {limit} {way}: {other}"
        return LocalProtocolError(text)

    def leave(self, now: float) -> None:
        """Say which jobs are watched no longer (§7.6), and ask whether that was read."""
        jobs = self._leaving.unsaid
        if not jobs:
            return
        for job_id in jobs:
            self._out.control(dialect.UNSUBSCRIBE, Unsubscribe(job_id=job_id).wire(), now)
        mark = new_id() if self._terms.offer(dialect.HEARTBEAT) else None
        self._leaving.said(jobs, mark)
        if mark is not None:
            self._ping(mark, now)

    def _ping(self, nonce: str, now: float) -> None:
        """Have the runtime say that it has read everything up to here."""
        self._out.control(dialect.PING, Ping(nonce=nonce, sent_at=now_text()).wire(), now)

    def _prepare(self, request: Request, job_id: str, now: float) -> str | None:
        """What must be before a subscription; gives the nonce of a ping that must follow it."""
        asking = request.token if isinstance(request.token, Asking) else None
        renew = asking.renew if asking is not None else bool(request.ids)
        if renew and self._terms.dialect.stale_subscriptions:
            self._out.control(dialect.UNSUBSCRIBE, Unsubscribe(job_id=job_id).wire(), now)
        history = bool(request.payload.get("history"))
        ends_with = new_id() if history and self._terms.dialect.mixes_histories else None
        self._ordering.subscribing(
            job_id, history=history, apart=history or asking is None, ends_with=ends_with
        )
        return ends_with

    # -- ends

    def refuse(self, request: Request, error: ArcpError, now: float) -> None:
        """A request ends without an answer."""
        if self._requests.remove(request):
            self._unanswered(request, error, now)

    def expire(self, now: float) -> None:
        """Requests that are out of time end. Their answers may yet come, and are theirs (S14)."""
        for request, late in self._requests.expire(now):
            self._unanswered(request, late, now)
            self._requests.keep(request)
        if self._requests.unasked and self._terms.live and self._terms.offer(dialect.HEARTBEAT):
            mark = new_id()
            self._requests.asked_with(mark)
            self._ping(mark, now)

    def close(self, cause: ArcpError | None) -> None:
        """The session is over: every request ends with it."""
        for request in self._requests:
            self._requests.remove(request)
            if not request.orphaned and not isinstance(request.token, Asking):
                # A new exception for each: a shared one would collect their tracebacks.
                error = copy.copy(cause) if cause else ClientClosed("the client was closed")
                self._out.emit(effects.Refused(request, error))

    def job_ended(self, job_id: str, now: float) -> None:
        """A cancel is answered by its job's end, however that came."""
        for request in self._requests:
            if request.kind == dialect.CANCEL and request.job_id == job_id:
                self._answer(request, None, now)

    def _answer(self, request: Request, value: object, now: float) -> None:
        if not self._requests.remove(request):
            return
        if request.late:
            self._out.report(f"the answer to {request.name} came after its time")
            if isinstance(request.token, Asking) and isinstance(value, Accepted):
                self._returns.fetched_late(request.token, value, now)
            return
        if isinstance(request.token, Asking):
            self._returns.answered(request.token, value, now)
            return
        if not request.orphaned:
            self._out.emit(effects.Answered(request, value))
        if isinstance(value, Subscribed):
            self._returns.watched(request, value, now)

    def _unanswered(self, request: Request, error: ArcpError, now: float) -> None:
        if request.late:
            self._out.report(f"the answer to {request.name} came after its time: {error}", error)
            return
        if request.kind == dialect.SUBSCRIBE and request.job_id is not None:
            late = isinstance(error, RequestTimeout) and bool(request.ids)
            self._ordering.unsubscribed(request.job_id, late=late)
        if isinstance(request.token, Asking):
            self._returns.refused(request.token, error, now)
        elif not request.orphaned:
            self._out.emit(effects.Refused(request, error))

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
        if request is not None and isinstance(request.token, Asking):
            self._answer(request, accepted, now)
            return
        here = self._terms.session_id
        elsewhere = bool(frame.session_id) and frame.session_id != here
        mine = request is not None
        self._out.emit(effects.JobKnown(accepted, mine=mine, request=request, elsewhere=elsewhere))
        if self._jobs.has_ended(accepted.job_id):
            job = KnownJob(accepted.job_id)  # its end was delivered: nothing is to come of it
        else:
            job = self._jobs.learn(accepted.job_id)
        job.agent = accepted.agent
        if request is None:
            job.heard = True
            return
        job.mine = True
        job.home = frame.session_id or here
        job.key = request.key
        job.payload = request.payload
        job.trace_id = request.trace_id
        request.job_id = accepted.job_id
        self._answer(request, accepted, now)
        if self._jobs.get(accepted.job_id) is job:
            self._returns.accepted(job, accepted, request, now, elsewhere=elsewhere)

    def _subscribed(self, frame: ControlFrame, now: float) -> None:
        subscribed = read_subscribed(frame)
        request = self._correlation.answered_by(frame)
        if subscribed is None or request is None:
            self._out.report("a job.subscribed that nobody waits for was ignored")
            return
        if not request.orphaned:
            self._out.emit(effects.JobKnown(subscribed, mine=False, request=request))
        self._answer(request, subscribed, now)

    def _page(self, frame: ControlFrame, now: float) -> None:
        request = self._correlation.answered_by(frame)
        if request is not None:
            self._answer(request, read_jobs(frame), now)

    def _cancelled(self, frame: ControlFrame, now: float) -> None:
        request = self._correlation.answered_by(frame)
        if request is not None:
            self._answer(request, None, now)

    def _pong(self, frame: ControlFrame, now: float) -> None:
        nonce = frame.payload.get("ping_nonce")
        if (
            self._ordering.answered(nonce)
            or self._leaving.read(nonce)
            or self._requests.read(nonce)
        ):
            return
        request = self._correlation.answered_by(frame)
        if request is None:
            return
        self._answer(request, now, now)
        if request.kind == dialect.CANCEL and request.job_id is not None:
            self._returns.cancelled(request.job_id, now)

    # -- refusals

    def refused(self, frame: ControlFrame, now: float, *, named: bool = False) -> bool:
        """An error came; whether it refuses a request.

        With ``named``, only one that it names: where the code may mean the session as well.
        """
        find = self._correlation.named_by if named else self._correlation.refused_by
        request = find(frame)
        if request is None:
            return False
        self.refuse(request, error_of(frame), now)
        return True

    def refuses(self, frame: ControlFrame) -> bool:
        """Whether a job.error answers a request instead of ending a job, as with some runtimes."""
        requests, spoken = self._requests, self._terms.dialect
        job_id = frame.job_id or frame.payload.get("job_id")
        if not isinstance(job_id, str) or self._correlation.named_by(frame) is not None:
            return True
        code = frame.payload.get("code")
        if code == dialect.DUPLICATE_KEY and requests.submitting():
            return True  # it names the job that has the key, and that goes on
        about = requests.about(job_id)
        if self._jobs.get(job_id) is None and not self._jobs.has_ended(job_id) and about is None:
            # A made-up id. Where refusals name no request, no job ends before it was accepted.
            return (spoken.one_at_a_time or code in _SUBMIT_REFUSALS) and requests.submitting()
        if spoken.strict and frame.event_seq is not None and "final_status" in frame.payload:
            return False  # numbered, and an end: the job's own, whatever else is being asked
        return code in _REFUSALS and about is not None


def error_of(frame: ControlFrame) -> RequestError:
    """The error that a refusal tells of."""
    refusal = read_refusal(frame)
    return request_error(
        refusal.code, refusal.message, retryable=refusal.retryable, details=refusal.details
    )
