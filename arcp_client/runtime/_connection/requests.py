"""Handles the requests of an open session: submit, cancel, subscribe, list, ack, ping (§6, §7)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Protocol, TypeVar

from arcp_client._log_fields import log_fields
from arcp_client._tasks import TaskOwner, pass_on
from arcp_client._wire import names
from arcp_client._wire.codec import ControlFrame
from arcp_client._wire.fields import Malformed
from arcp_client._wire.messages import (
    Ack,
    Answer,
    Cancel,
    ListJobsMessage,
    ListQuestions,
    Message,
    Ping,
    SendMessage,
    Submit,
    SubscribeMessage,
    Unsubscribe,
)
from arcp_client.errors import InvalidRequest, RequestError, request_error
from arcp_client.runtime._connection import frames
from arcp_client.runtime._dialogue.book import QuestionBook
from arcp_client.runtime._dialogue.elsewhere import Elsewhere
from arcp_client.runtime._dialogue.inbox import Mailroom
from arcp_client.runtime._dialogue.question import AskedQuestion
from arcp_client.runtime._jobs.admission import Acceptance, Admission
from arcp_client.runtime._jobs.job import ServerJob
from arcp_client.runtime._jobs.listing import (
    DEFAULT_LIMIT,
    MAX_BYTES,
    cursor_after,
    entry_of,
    page,
    start_of,
)
from arcp_client.runtime._jobs.mirrors import Mirrors
from arcp_client.runtime._jobs.outcomes import Failure
from arcp_client.runtime._jobs.registry import JobRegistry
from arcp_client.runtime._leases.credentials import credential_wire
from arcp_client.runtime._log.directory import Directory
from arcp_client.runtime._log.entries import Watch
from arcp_client.runtime._sessions.session import ServerSession, SubscriptionFeed
from arcp_client.runtime.limits import Limits

__all__ = ["RequestHandler", "checked"]

_log = logging.getLogger("arcp_client.runtime")

M = TypeVar("M", bound=Message)
T = TypeVar("T")


class _Connection(Protocol):
    """The connection that a request arrived on.

    Attributes:
        unanswered: requests that were handled and whose answer waits for the event log.
    """

    unanswered: int

    def control(self, frame: bytes) -> None: ...

    def in_turn(self, frame: bytes) -> None: ...

    def refuse(self, frame: ControlFrame, error: BaseException) -> None: ...

    def finish(self, frame: bytes | None = None) -> None: ...


class RequestHandler:
    """Answers the requests of all sessions.

    A request takes effect before its handler returns, and the reader awaits the handler. So the
    requests of one connection take effect in their order. They are also answered in their order:
    submits and subscriptions once they are stored, other requests at once, or after the earlier
    ones that wait to be stored. A submit may have to wait for another submit with the same key, or
    for credentials. Then a separate task answers it, and the reader continues. Pongs and
    acknowledgements wait for no request.
    """

    def __init__(
        self,
        jobs: JobRegistry,
        admission: Admission,
        questions: QuestionBook,
        mailroom: Mailroom,
        elsewhere: Elsewhere | None,
        limits: Limits,
        directory: Directory,
        then: Callable[[Callable[[], None], Callable[[RequestError], None]], None],
        tasks: TaskOwner,
    ) -> None:
        self._jobs = jobs
        self._directory = directory
        self.mirrors = Mirrors(directory.jobs, jobs, tasks, self.broken)
        self._admission = admission
        self._questions = questions
        self._mailroom = mailroom
        self._elsewhere = elsewhere
        self._limits = limits
        self._then = then
        self._tasks = tasks
        self._accepting: set[asyncio.Task[None]] = set()
        self._handlers: dict[
            str, Callable[[_Connection, ServerSession, ControlFrame], Awaitable[None] | None]
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
            names.ANSWER: self._answer,
            names.LIST_QUESTIONS: self._list_questions,
            names.SEND: self._send_message,
        }

    async def handle(self, line: _Connection, session: ServerSession, frame: ControlFrame) -> None:
        """Handle one frame.

        Raises:
            RequestError: the request is refused.
        """
        handler = self._handlers.get(frame.type)
        try:
            if handler is None:
                raise InvalidRequest(f"a client cannot send {frame.type[:80]!r} in a session")
            handling = handler(line, session, frame)
            if handling is not None:
                await handling
        except Exception as error:
            if not line.unanswered:
                raise
            refused = error
            self._once_stored(
                line, lambda: line.refuse(frame, refused), lambda _: line.refuse(frame, refused)
            )

    def _once_stored(
        self,
        line: _Connection,
        written: Callable[[], None],
        failed: Callable[[RequestError], None],
    ) -> None:
        """Answer a request once all changes so far are stored, in the order of such calls."""
        line.unanswered += 1

        def on_written() -> None:
            line.unanswered -= 1
            written()

        def on_failed(error: RequestError) -> None:
            line.unanswered -= 1
            failed(error)

        self._then(on_written, on_failed)

    def _send(self, line: _Connection, send: Callable[[], None]) -> None:
        """Answer at once, or after the earlier requests that wait to be stored."""
        if line.unanswered:
            self._once_stored(line, send, lambda _: send())
        else:
            send()

    # ----------------------------------------------------------------------- session

    def _ping(self, line: _Connection, session: ServerSession, frame: ControlFrame) -> None:
        # Queued after the events emitted so far: a client that gets the pong has read them all.
        nonce = checked(Ping, frame).nonce
        if len(nonce) > names.MAX_NONCE:
            raise InvalidRequest(f"session.ping: nonce: at most {names.MAX_NONCE} characters")
        line.in_turn(frames.pong(session.id, nonce))

    def _pong(self, line: _Connection, session: ServerSession, frame: ControlFrame) -> None:
        """Ignore a pong, because the heartbeat has counted it when it was read."""

    def _ack(self, line: _Connection, session: ServerSession, frame: ControlFrame) -> None:
        _need(session, names.ACKS)
        if not session.acknowledge(checked(Ack, frame).last_processed_seq):
            raise InvalidRequest("last_processed_seq was never sent in this session")

    async def _list(self, line: _Connection, session: ServerSession, frame: ControlFrame) -> None:
        _need(session, names.LISTING)
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
        self._send(line, lambda: line.control(answer))

    def _close(self, line: _Connection, session: ServerSession, frame: ControlFrame) -> None:
        # The session's jobs keep running and it can be resumed (§6.7): only the connection ends.
        payload = {"request_id": frame.id} if frame.id else {}
        answer = frames.control(names.CLOSED, payload, session_id=session.id)
        self._send(line, lambda: line.finish(answer))

    # -------------------------------------------------------------------------- jobs

    async def _submit(self, line: _Connection, session: ServerSession, frame: ControlFrame) -> None:
        submit = checked(Submit, frame)
        accepted = await self._admission.submit(session, submit, frame.trace_id, frame.extensions)
        if isinstance(accepted, Acceptance):
            self._accept(line, session, frame, accepted)
        else:
            task = self._tasks.spawn(
                self._accept_later(line, session, frame, accepted), name="accept"
            )
            self._accepting.add(task)
            task.add_done_callback(self._accepting.discard)

    async def settled(self) -> None:
        """Wait until every submit is answered."""
        if self._accepting:
            await asyncio.wait(tuple(self._accepting))

    async def _accept_later(
        self,
        line: _Connection,
        session: ServerSession,
        frame: ControlFrame,
        accepting: Awaitable[Acceptance],
    ) -> None:
        task = asyncio.current_task()
        try:
            accepted = await accepting
        except BaseException as error:  # noqa: BLE001 - the line tells refusals from faults
            pass_on(error, task)
            line.refuse(frame, error)
        else:
            self._accept(line, session, frame, accepted)

    def _accept(
        self, line: _Connection, session: ServerSession, frame: ControlFrame, accepted: Acceptance
    ) -> None:
        acceptance = frames.acceptance(accepted.payload, session.id, frame.id)

        def announce() -> None:
            session.control(acceptance)
            if accepted.job is not None:
                self._jobs.runner.admit(accepted.job)
            if accepted.elsewhere:
                session.jobs.add(accepted.job_id)
                watch = Watch(session.id, accepted.job_id, 0)
                self._tasks.spawn(self.mirrors.keep_following(session, watch), name="follow")

        def unwritten(error: RequestError) -> None:
            if accepted.elsewhere:  # it is stored, and another replica may run it already
                announce()
                return
            if accepted.job is not None:
                self._admission.withdraw(accepted.job, frame.payload.get("idempotency_key"), error)
            line.refuse(frame, error)

        self._once_stored(line, announce, unwritten)

    async def _cancel(self, line: _Connection, session: ServerSession, frame: ControlFrame) -> None:
        request = _of_job(Cancel, frame)
        await self.mirrors.find(request.job_id, session)
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
        self._send(line, lambda: line.control(answer))
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
        self, line: _Connection, session: ServerSession, frame: ControlFrame
    ) -> None:
        _need(session, names.SUBSCRIPTIONS)
        request = _of_job(SubscribeMessage, frame)
        self._jobs.check_log()
        await self.mirrors.find(request.job_id)
        job = self._jobs.watched(session, request.job_id)
        start = job.history.end
        if request.history:
            start = await self.mirrors.start(job, request.from_event_seq)
        feeds = self._feeds(session, job, start)
        payload = job.description()
        payload |= _credentials(session, job)
        payload["replayed"] = any(feed.next < job.history.end for feed in feeds)
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
        self._once_stored(line, lambda: line.control(confirmation), unwritten)
        for feed in feeds:
            feed.push()
        self.mirrors.wake(job.id)

    def _feeds(self, session: ServerSession, job: ServerJob, start: int) -> list[SubscriptionFeed]:
        """Make the feeds for those events of the job that the session does not receive already."""
        if session.id == job.owner_id:
            return []  # the session already receives every event of the job
        broken = partial(self.broken, session)
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

    def broken(self, session: ServerSession, feed: SubscriptionFeed) -> None:
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

    def _unsubscribe(self, line: _Connection, session: ServerSession, frame: ControlFrame) -> None:
        _need(session, names.SUBSCRIPTIONS)
        request = _of_job(Unsubscribe, frame)
        feed = session.feeds.get(request.job_id)
        job = self._jobs.known(request.job_id)
        if job is not None and job.owner_id == session.id:
            return  # the session that submitted a job receives it in any case
        if feed is not None:
            feed.end()
            self._jobs.unwatch(session, request.job_id)

    # -------------------------------------------------------------------- questions

    async def _answer(self, line: _Connection, session: ServerSession, frame: ControlFrame) -> None:
        _need(session, names.ASKING)
        request = _of_job(Answer, frame)

        def confirm(question: AskedQuestion) -> None:
            payload = question.taken(frame.id)
            line.control(
                frames.control(
                    names.ANSWER_TAKEN, payload, session_id=session.id, job_id=request.job_id
                )
            )

        if self._elsewhere is not None and not self._questions.decides(request.question_id):
            answering = await self._elsewhere.answer(session, request)
            self._tasks.spawn(_reply(line, frame, answering, confirm), name="answer")
            return

        def unwritten(error: RequestError) -> None:
            line.refuse(frame, error)

        try:
            question = self._questions.answer(session, request)
        except RequestError as error:
            late = error
            # Only once the winner is stored: a crash could still undo it.
            self._once_stored(line, lambda: line.refuse(frame, late), unwritten)
            return
        self._once_stored(line, lambda: confirm(question), unwritten)

    async def _send_message(
        self, line: _Connection, session: ServerSession, frame: ControlFrame
    ) -> None:
        _need(session, names.STEERING)
        request = _of_job(SendMessage, frame)
        await self.mirrors.find(request.job_id, session)
        job = self._jobs.steered(session, request.job_id)
        self._jobs.check_log()

        def confirm(state: str) -> None:
            payload = {"job_id": job.id, "message_id": request.message_id, "state": state}
            if frame.id:
                payload["request_id"] = frame.id
            line.control(
                frames.control(names.QUEUED, payload, session_id=session.id, job_id=job.id)
            )

        if self._elsewhere is not None and self._jobs.get(job.id) is None:
            sending = await self._elsewhere.send(session, job, request)
            self._tasks.spawn(_reply(line, frame, sending, confirm), name="send")
            return
        state = self._mailroom.send(
            job, request, by=session.principal, client=session.client, session=session.id
        )
        self._once_stored(line, lambda: confirm(state), lambda error: line.refuse(frame, error))

    async def _list_questions(
        self, line: _Connection, session: ServerSession, frame: ControlFrame
    ) -> None:
        _need(session, names.ASKING)
        request = checked(ListQuestions, frame)
        start = start_of(request)
        following = DelayedNotice(partial(session.control, _changed_notice(session)))
        if request.follow:  # before the list is read: what changes meanwhile is told after it
            self._questions.follow(session, following.due)
        if self._elsewhere is not None:
            entries, last = await self._elsewhere.page(session, request)
        else:
            entries, last = self._questions.page(
                session, start, request.limit or DEFAULT_LIMIT, MAX_BYTES
            )
        payload = {
            "request_id": frame.id,
            "questions": entries,
            "next_cursor": None if last is None else cursor_after(last),
        }
        answer = frames.control(names.QUESTIONS, payload, session_id=session.id)

        def send() -> None:
            line.control(answer)
            following.begin()

        self._send(line, send)


def _credentials(session: ServerSession, job: ServerJob) -> dict[str, Any]:
    """Return a job's credentials, for its own principal only (§7.6)."""
    if (
        not job.credentials
        or session.principal != job.principal
        or names.CREDENTIALS not in session.features
    ):
        return {}
    return {"credentials": [credential_wire(each) for each in job.credentials.values()]}


class DelayedNotice:
    """A notice that is sent once, not before it may be.

    Args:
        send: sends it.
    """

    def __init__(self, send: Callable[[], None]) -> None:
        self._send = send
        self._due = self._begun = False

    def due(self) -> None:
        """Send it now, or at the beginning."""
        self._due = True
        if self._begun:
            self._send()

    def begin(self) -> None:
        """Let it be sent from now on."""
        self._begun = True
        if self._due:
            self._send()


def _changed_notice(session: ServerSession) -> bytes:
    return frames.control(names.QUESTIONS_CHANGED, {}, session_id=session.id)


async def _reply(
    line: _Connection,
    frame: ControlFrame,
    deciding: Awaitable[T],
    confirm: Callable[[T], None],
) -> None:
    """Answer a request about which another replica decides."""
    task = asyncio.current_task()
    try:
        decided = await deciding
    except BaseException as error:  # noqa: BLE001 - the line tells refusals from faults
        pass_on(error, task)
        line.refuse(frame, error)
    else:
        confirm(decided)


def _need(session: ServerSession, feature: str) -> None:
    if feature not in session.features:
        raise InvalidRequest(f"the feature {feature} was not negotiated")


def _of_job(model: type[M], frame: ControlFrame) -> M:
    """Read a request about a job. Some clients name the job only in the envelope."""
    if "job_id" not in frame.payload and frame.job_id is not None:
        frame.payload["job_id"] = frame.job_id
    return checked(model, frame)


def checked(model: type[M], frame: ControlFrame) -> M:
    """Read a frame's payload as a message of the given type.

    Raises:
        InvalidRequest: the payload is invalid. The message names the field, but not its value.
    """
    try:
        return model.read(frame.payload)
    except Malformed as error:
        place = ".".join(error.place) or "payload"
        raise InvalidRequest(f"{frame.type}: {place[:120]}: {error.reason[:300]}") from None
