"""Handles the requests about the questions and the messages of jobs."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any

from arcp_client._tasks import TaskOwner
from arcp_client._wire import names
from arcp_client._wire.codec import ControlFrame
from arcp_client._wire.messages import Answer, ListQuestions, SendMessage
from arcp_client.errors import RequestError
from arcp_client.runtime._connection import frames
from arcp_client.runtime._connection.payloads import checked, need, of_job
from arcp_client.runtime._connection.replies import Replies, RequestLine, reply_later
from arcp_client.runtime._dialogue.book import QuestionBook
from arcp_client.runtime._dialogue.elsewhere import Elsewhere
from arcp_client.runtime._dialogue.inbox import Mailroom
from arcp_client.runtime._dialogue.question import AskedQuestion
from arcp_client.runtime._jobs.listing import DEFAULT_LIMIT, MAX_BYTES, cursor_after, start_of
from arcp_client.runtime._jobs.mirrors import Mirrors
from arcp_client.runtime._jobs.registry import JobRegistry
from arcp_client.runtime._sessions.session import ServerSession

__all__ = ["DialogueRequests"]


class DialogueRequests:
    """Takes answers and messages for this replica's jobs, or passes them to other replicas.

    Args:
        jobs: the jobs.
        mirrors: the jobs of other replicas.
        questions: the questions of this replica's jobs.
        mailroom: the messages for this replica's jobs.
        elsewhere: the questions and messages of other replicas; ``None`` if there are none.
        replies: sends the replies.
        tasks: owns the tasks that wait for other replicas.
    """

    def __init__(
        self,
        jobs: JobRegistry,
        mirrors: Mirrors,
        questions: QuestionBook,
        mailroom: Mailroom,
        elsewhere: Elsewhere | None,
        replies: Replies,
        tasks: TaskOwner,
    ) -> None:
        self._jobs = jobs
        self._mirrors = mirrors
        self._questions = questions
        self._mailroom = mailroom
        self._elsewhere = elsewhere
        self._replies = replies
        self._tasks = tasks
        self.handlers: Mapping[
            str, Callable[[RequestLine, ServerSession, ControlFrame], Coroutine[Any, Any, None]]
        ] = {
            names.ANSWER: self._answer,
            names.LIST_QUESTIONS: self._list_questions,
            names.SEND: self._send_message,
        }

    async def _answer(self, line: RequestLine, session: ServerSession, frame: ControlFrame) -> None:
        need(session, names.ASKING)
        request = of_job(Answer, frame)

        def confirm(question: AskedQuestion) -> None:
            payload = question.taken(frame.id)
            line.control(
                frames.control(
                    names.ANSWER_TAKEN, payload, session_id=session.id, job_id=request.job_id
                )
            )

        if self._elsewhere is not None and not self._questions.decides(request.question_id):
            answering = await self._elsewhere.answer(session, request)
            self._tasks.spawn(reply_later(line, frame, answering, confirm), name="answer")
            return

        def unwritten(error: RequestError) -> None:
            line.refuse(frame, error)

        try:
            question = self._questions.answer(session, request)
        except RequestError as error:
            late = error
            # Only once the winner is stored: a crash could still undo it.
            self._replies.once_stored(line, lambda: line.refuse(frame, late), unwritten)
            return
        self._replies.once_stored(line, lambda: confirm(question), unwritten)

    async def _send_message(
        self, line: RequestLine, session: ServerSession, frame: ControlFrame
    ) -> None:
        need(session, names.STEERING)
        request = of_job(SendMessage, frame)
        await self._mirrors.find(request.job_id, session)
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
            self._tasks.spawn(reply_later(line, frame, sending, confirm), name="send")
            return
        state = self._mailroom.send(
            job, request, by=session.principal, client=session.client, session=session.id
        )
        self._replies.once_stored(
            line, lambda: confirm(state), lambda error: line.refuse(frame, error)
        )

    async def _list_questions(
        self, line: RequestLine, session: ServerSession, frame: ControlFrame
    ) -> None:
        need(session, names.ASKING)
        request = checked(ListQuestions, frame)
        start = start_of(request)
        following = DelayedNotice(partial(session.control, _changed_notice(session)))
        if request.follow:  # first, so that no change after the list is read is missed
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

        self._replies.send(line, send)


class DelayedNotice:
    """Delays a notice of a change until the listing that it refers to was sent.

    Args:
        send: sends the notice.
    """

    def __init__(self, send: Callable[[], None]) -> None:
        self._send = send
        self._due = self._begun = False

    def due(self) -> None:
        """Send the notice, now or by `begin`."""
        self._due = True
        if self._begun:
            self._send()

    def begin(self) -> None:
        """Send the notice from now on, and at once if it is due already."""
        self._begun = True
        if self._due:
            self._send()


def _changed_notice(session: ServerSession) -> bytes:
    return frames.control(names.QUESTIONS_CHANGED, {}, session_id=session.id)
