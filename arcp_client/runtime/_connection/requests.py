"""Handles the requests of an open session, but for those in `dialogue_requests` (§6, §7)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from arcp_client._log_fields import log_fields
from arcp_client._tasks import TaskOwner
from arcp_client._wire import names
from arcp_client._wire.codec import ControlFrame
from arcp_client._wire.messages import (
    Ack,
    Cancel,
    ListJobsMessage,
    Ping,
    Submit,
    SubscribeMessage,
    Unsubscribe,
)
from arcp_client.errors import InvalidRequest, RequestError, request_error
from arcp_client.runtime._connection import frames
from arcp_client.runtime._connection.dialogue_requests import DialogueRequests
from arcp_client.runtime._connection.payloads import checked, need, of_job
from arcp_client.runtime._connection.replies import Replies, RequestLine, reply_later
from arcp_client.runtime._jobs.admission import Acceptance, Admission
from arcp_client.runtime._jobs.job import ServerJob
from arcp_client.runtime._jobs.listing import entry_of, page, start_of
from arcp_client.runtime._jobs.mirrors import Mirrors
from arcp_client.runtime._jobs.outcomes import Failure
from arcp_client.runtime._jobs.registry import JobRegistry
from arcp_client.runtime._leases.credentials import credential_wire
from arcp_client.runtime._log.directory import Directory
from arcp_client.runtime._log.entries import Watch
from arcp_client.runtime._sessions.session import ServerSession, SubscriptionFeed
from arcp_client.runtime.limits import Limits

__all__ = ["RequestHandler", "subscription_broken"]

_log = logging.getLogger("arcp_client.runtime")


class RequestHandler:
    """Answers the requests of all sessions.

    A request takes effect before its handler returns, and the reader awaits the handler. So the
    requests of one connection take effect in their order. They are also answered in their order:
    submits and subscriptions once they are stored, other requests at once, or after the earlier
    ones that wait to be stored. A submit may have to wait for another submit with the same key, or
    for credentials. Then a separate task answers it, and the reader continues. Pongs and
    acknowledgements wait for no request.

    With a shared directory, a request that has begun is handled to its end even if its link's task
    is cancelled: what another replica or the database knows of it must be followed up here.
    """

    def __init__(
        self,
        jobs: JobRegistry,
        admission: Admission,
        mirrors: Mirrors,
        directory: Directory,
        dialogue: DialogueRequests,
        limits: Limits,
        replies: Replies,
        tasks: TaskOwner,
    ) -> None:
        self._jobs = jobs
        self._directory = directory
        self._mirrors = mirrors
        self._admission = admission
        self._limits = limits
        self._replies = replies
        self._tasks = tasks
        self._accepting: set[asyncio.Task[None]] = set()
        self._handlers: dict[
            str,
            Callable[[RequestLine, ServerSession, ControlFrame], Coroutine[Any, Any, None] | None],
        ] = {
            names.PING: self._ping,
            names.PONG: self._pong,
            names.ACK: self._ack,
            names.LIST_JOBS: self._list,
            names.CLOSE: self._close,
            names.BYE: self._close,
            names.SUBMIT: self._submit,
            names.CANCEL: self._cancel,
            names.SUBSCRIBE: self._subscribe,
            names.UNSUBSCRIBE: self._unsubscribe,
            **dialogue.handlers,
        }

    async def handle(self, line: RequestLine, session: ServerSession, frame: ControlFrame) -> None:
        """Handle one frame.

        Raises:
            RequestError: the request is refused.
        """
        handler = self._handlers.get(frame.type)
        try:
            if handler is None:
                raise InvalidRequest(f"a client cannot send {frame.type[:80]!r} in a session")
            handling = handler(line, session, frame)
            if handling is not None and self._directory.shared:
                await self._tasks.complete(handling, name="request")
            elif handling is not None:
                await handling
        except Exception as error:
            if not line.unanswered:
                raise
            refused = error
            self._replies.once_stored(
                line, lambda: line.refuse(frame, refused), lambda _: line.refuse(frame, refused)
            )

    # ----------------------------------------------------------------------- session

    def _ping(self, line: RequestLine, session: ServerSession, frame: ControlFrame) -> None:
        # Queued after the events emitted so far: a client that gets the pong has read them all.
        nonce = checked(Ping, frame).nonce
        if len(nonce) > names.MAX_NONCE:
            raise InvalidRequest(f"session.ping: nonce: at most {names.MAX_NONCE} characters")
        line.in_turn(frames.pong(session.id, nonce))

    def _pong(self, line: RequestLine, session: ServerSession, frame: ControlFrame) -> None:
        """Ignore a pong, because the heartbeat has counted it when it was read."""

    def _ack(self, line: RequestLine, session: ServerSession, frame: ControlFrame) -> None:
        need(session, names.ACKS)
        number = frame.payload.get("last_processed_seq")
        # Acknowledgements are frequent, and a check of all fields takes most of their time.
        if type(number) is not int or number < 0:
            number = checked(Ack, frame).last_processed_seq
        if not session.acknowledge(number):
            raise InvalidRequest("last_processed_seq was never sent in this session")

    async def _list(self, line: RequestLine, session: ServerSession, frame: ControlFrame) -> None:
        need(session, names.LISTING)
        request = checked(ListJobsMessage, frame)
        jobs, principal = self._jobs, session.principal
        found = await self._directory.jobs.page(
            None if jobs.shows_others else principal,
            request,
            lambda state: jobs.allows(principal, state.principal, state.id, state.agent),
        )
        if found is not None:
            entries, cursor = [entry_of(known) for known in found.jobs], found.next_cursor
        else:
            entries, cursor = page(
                request,
                jobs.after(start_of(request), principal),
                partial(_credentials, session),
            )
        payload = {"request_id": frame.id, "jobs": entries, "next_cursor": cursor}
        answer = frames.control(names.JOBS, payload, session_id=session.id)
        self._replies.send(line, lambda: line.control(answer))

    def _close(self, line: RequestLine, session: ServerSession, frame: ControlFrame) -> None:
        # The session's jobs keep running and it can be resumed (§6.7): only the connection ends.
        payload = {"request_id": frame.id} if frame.id else {}
        answer = frames.control(names.CLOSED, payload, session_id=session.id)
        self._replies.send(line, lambda: line.finish(answer))

    # -------------------------------------------------------------------------- jobs

    async def _submit(self, line: RequestLine, session: ServerSession, frame: ControlFrame) -> None:
        submit = checked(Submit, frame)
        accepted = await self._admission.submit(session, submit, frame.trace_id, frame.extensions)
        if isinstance(accepted, Acceptance):
            self._accept(line, session, frame, accepted)
        else:
            accept = partial(self._accept, line, session, frame)
            task = self._tasks.spawn(reply_later(line, frame, accepted, accept), name="accept")
            self._accepting.add(task)
            task.add_done_callback(self._accepting.discard)

    async def settled(self) -> None:
        """Wait until every submit is answered."""
        if self._accepting:
            await asyncio.wait(tuple(self._accepting))

    def _accept(
        self, line: RequestLine, session: ServerSession, frame: ControlFrame, accepted: Acceptance
    ) -> None:
        acceptance = frames.acceptance(accepted.payload, session.id, frame.id)

        def announce() -> None:
            session.control(acceptance)
            if accepted.job is not None:
                self._jobs.runner.admit(accepted.job)
            if accepted.elsewhere:
                session.jobs.add(accepted.job_id)
                watch = Watch(session.id, accepted.job_id, 0)
                self._tasks.spawn(self._mirrors.keep_following(session, watch), name="follow")

        def unwritten(error: RequestError) -> None:
            if self._directory.shared:  # it is stored, in the directory
                announce()
                return
            if accepted.job is not None:
                self._admission.withdraw(accepted.job, frame.payload.get("idempotency_key"), error)
            line.refuse(frame, error)

        self._replies.once_stored(line, announce, unwritten)

    async def _cancel(self, line: RequestLine, session: ServerSession, frame: ControlFrame) -> None:
        request = of_job(Cancel, frame)
        await self._mirrors.find(request.job_id, session)
        job = self._jobs.controlled(session, request.job_id)
        if self._jobs.get(job.id) is None:  # another replica runs it
            await self._directory.cancel(job.id, request.reason[:1024])
        payload = {"job_id": job.id, "current_status": job.status}
        if frame.id:
            payload["request_id"] = frame.id
        # Also for a job that has just ended: a race is not an error, and the terminal has the
        # status.
        answer = frames.control(
            names.CANCELLED, payload, session_id=session.id, job_id=job.id, trace_id=job.trace_id
        )
        self._replies.send(line, lambda: line.control(answer))
        if not job.ended:
            _log.info(
                "%s cancels job %s",
                session.principal,
                job.id,
                extra=log_fields(session=session.id, job=job.id),
            )
        if self._jobs.get(job.id) is job:
            self.cancelled(job, request.reason)

    def cancelled(self, job: ServerJob, reason: str) -> None:
        """Cancel a job of this replica."""
        self._jobs.runner.stop(
            job,
            Failure(names.STATUS_CANCELLED, names.CODE_CANCELLED, reason[:1024]),
            grace=self._limits.cancel_grace,
        )

    async def _subscribe(
        self, line: RequestLine, session: ServerSession, frame: ControlFrame
    ) -> None:
        need(session, names.SUBSCRIPTIONS)
        request = of_job(SubscribeMessage, frame)
        self._jobs.check_log()
        await self._mirrors.find(request.job_id)
        job = self._jobs.watched(session, request.job_id)
        start = job.history.end
        if request.history:
            start = await self._mirrors.start(job, request.from_event_seq)
        feeds = self._feeds(session, job, start)
        payload = job.description()
        payload |= _credentials(session, job)
        payload["replayed"] = any(feed.next < job.history.end for feed in feeds)
        # A mirror may hold only the beginning of the history that another replica tells.
        if feeds and job is not self._jobs.mirrors.get(job.id):
            payload[names.HISTORY_LAST] = feeds[0].last_past()
        if frame.id:
            payload["request_id"] = frame.id
        confirmation = frames.control(
            names.SUBSCRIBED,
            payload,
            session_id=session.id,
            job_id=job.id,
            trace_id=job.trace_id,
        )

        def unwritten(error: RequestError) -> None:
            for feed in feeds:
                feed.end()
            line.refuse(frame, error)

        # A restart continues only stored subscriptions. The batch of the confirmation also settles
        # the first events of the feeds, so that they follow it.
        self._replies.once_stored(line, lambda: line.control(confirmation), unwritten)
        for feed in feeds:
            feed.push()
        self._mirrors.wake(job.id)

    def _feeds(self, session: ServerSession, job: ServerJob, start: int) -> list[SubscriptionFeed]:
        """Make the feeds for those events of the job that the session does not receive already."""
        if session.id == job.owner_id:
            return []  # the session already receives every event of the job
        broken = partial(subscription_broken, session)
        known = session.feeds.get(job.id)
        if known is not None:
            if start >= known.first:
                return []
            earlier = SubscriptionFeed(
                session, job.id, job.history, start, broken, stop=known.first
            )
            known.first = start
            session.watch(earlier)  # a restart continues there until `earlier` has ended
            return [earlier]
        feed = SubscriptionFeed(session, job.id, job.history, start, broken)
        if not job.ended or start < job.history.end:
            session.feeds[job.id] = feed
            job.feeds[session] = feed
            session.watch(feed)
        return [feed]

    def _unsubscribe(self, line: RequestLine, session: ServerSession, frame: ControlFrame) -> None:
        need(session, names.SUBSCRIPTIONS)
        request = of_job(Unsubscribe, frame)
        feed = session.feeds.get(request.job_id)
        job = self._jobs.known(request.job_id)
        if job is not None and job.owner_id == session.id:
            return  # the session that submitted a job receives it in any case
        if feed is not None:
            feed.end()
            self._jobs.unwatch(session, request.job_id)


def _credentials(session: ServerSession, job: ServerJob) -> dict[str, Any]:
    """Return a job's credentials, for its own principal only (§7.6)."""
    if (
        not job.credentials
        or session.principal != job.principal
        or names.CREDENTIALS not in session.features
    ):
        return {}
    return {"credentials": [credential_wire(each) for each in job.credentials.values()]}


def subscription_broken(session: ServerSession, feed: SubscriptionFeed) -> None:
    """Notify a session whose subscription has ended before the job."""
    _log.warning(
        "%s fell behind with job %s: its subscription ended",
        session.principal,
        feed.job_id,
        extra=log_fields(session=session.id, job=feed.job_id),
    )
    error = request_error(
        names.INTERNAL_ERROR,
        "the subscription ended: its next event is no longer held",
        retryable=True,
    )
    session.control(frames.refusal(error, session_id=session.id, job_id=feed.job_id))
