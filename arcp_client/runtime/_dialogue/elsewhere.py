"""Passes answers and messages of clients to the replicas that decide about them.

This replica writes an answer or a message into the store that the replicas share. The replica that
decides reads it there, and writes its decision into the same store. Wake-ups carry no data.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Iterator
from typing import Any

from arcp_client._tasks import TaskOwner
from arcp_client._wire import names
from arcp_client._wire.codec import snapshot
from arcp_client._wire.ids import new_id, new_prefixed_id
from arcp_client._wire.messages import Answer, ListQuestions, SendMessage
from arcp_client.errors import (
    DuplicateKey,
    InvalidAnswer,
    JobEnded,
    QuestionNotFound,
    RequestError,
    request_error,
)
from arcp_client.runtime._dialogue.inbox import fingerprint
from arcp_client.runtime._dialogue.question import AskedQuestion
from arcp_client.runtime._dialogue.rights import check_rights, checked_size, read_refusal, sees
from arcp_client.runtime._jobs.job import ServerJob
from arcp_client.runtime._jobs.listing import DEFAULT_LIMIT, start_of
from arcp_client.runtime._jobs.registry import JobRegistry
from arcp_client.runtime._log.dialogue import (
    OfferedAnswer,
    OfferedMessage,
    SharedDialogue,
    StoredMessage,
)
from arcp_client.runtime._sessions.session import ServerSession
from arcp_client.runtime.limits import Limits

__all__ = ["Elsewhere"]

_PATIENCE = 15.0
"""Seconds until an answer or a message is taken back, of which no replica has decided."""
_LOOK = 1.0
"""Seconds after which a lost wake-up is made up for."""


class Elsewhere:
    """What clients of this replica want of the others.

    Each method does at once what must happen in the order of the client's requests, and returns an
    awaitable of the rest.

    Args:
        shared: the questions and messages of all replicas.
        jobs: tells which principal may see a job.
        limits: bounds number and size.
        tasks: owns the tasks that take back what no replica wants any more.
    """

    def __init__(
        self, shared: SharedDialogue, jobs: JobRegistry, limits: Limits, tasks: TaskOwner
    ) -> None:
        self._shared = shared
        self._jobs = jobs
        self._limits = limits
        self._tasks = tasks
        self._news: dict[str, set[asyncio.Event]] = {}

    # -------------------------------------------------------------------------- news

    def wake(self, job_id: str) -> None:
        """Look anew at what waits for the replica of a job."""
        for news in self._news.get(job_id, ()):
            news.set()

    async def _wait(self, news: asyncio.Event) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LOOK):
                await news.wait()
        news.clear()

    @contextlib.contextmanager
    def _listening(self, job_id: str) -> Iterator[asyncio.Event]:
        news = asyncio.Event()
        listening = self._news.setdefault(job_id, set())
        listening.add(news)
        try:
            yield news
        finally:
            listening.discard(news)
            if not listening:
                self._news.pop(job_id, None)

    # ---------------------------------------------------------------------- questions

    async def page(
        self, session: ServerSession, request: ListQuestions
    ) -> tuple[list[dict[str, Any]], int | None]:
        """Return the open questions that a session may see, of all replicas; and the next number.

        Raises:
            RequestError: the store cannot be reached.
        """
        principal, jobs = session.principal, self._jobs
        found, last = await self._shared.questions(
            None if jobs.shows_others else principal,
            start_of(request),
            request.limit or DEFAULT_LIMIT,
            lambda known: sees(jobs, principal, known.state, known.agent),
        )
        questions = [(AskedQuestion(known.state), known.held) for known in found]
        return [
            each.entry(may_answer=each.may_be_answered_by(principal), waiting=held)
            for each, held in questions
        ], last

    async def answer(self, session: ServerSession, request: Answer) -> Awaitable[AskedQuestion]:
        """Answer a question of another replica, or one for which no agent waits.

        Returns:
            An awaitable of the question, once the answer is taken and this is stored.

        Raises:
            RequestError: the answer is refused.
        """
        principal = session.principal
        known = await self._shared.question(request.question_id)
        if known is None or not sees(self._jobs, principal, known.state, known.agent):
            raise QuestionNotFound(f"there is no question {request.question_id[:80]}")
        question = AskedQuestion(known.state)
        check_rights(question, principal, request.job_id)
        most = min(self._limits.question_bytes, self._limits.event_bytes // 2)
        encoded = checked_size(request.value, most)
        if question.open and (fault := question.fault(request.value)) is not None:
            raise InvalidAnswer(f"{fault[0]}: {fault[1]}", details={"path": fault[0]})
        answer = OfferedAnswer(
            id=new_id(),
            question_id=question.id,
            job_id=request.job_id,
            by=principal,
            client=session.client,
            key=request.idempotency_key or new_prefixed_id("auto"),
            value=encoded,
        )
        return self._answered(answer, question, held=known.held)

    async def _answered(
        self, answer: OfferedAnswer, question: AskedQuestion, *, held: bool
    ) -> AskedQuestion:
        value, offered = json.loads(answer.value), False
        with self._listening(answer.job_id) as news:
            try:
                async with asyncio.timeout(_PATIENCE):
                    while question.open:
                        if not held:
                            await self._shared.settle(
                                answer.question_id,
                                answer.value,
                                answer.by,
                                answer.client,
                                answer.key,
                            )
                        elif not offered:
                            if not await self._shared.offer_answer(answer):
                                raise _busy("too many answers wait for this question")
                            offered = True
                        else:
                            await self._wait(news)
                            refusal = await self._shared.answer_refused(answer)
                            if refusal is not None:
                                raise read_refusal(refusal)
                        known = await self._shared.question(question.id)
                        if known is None:
                            raise QuestionNotFound(f"there is no question {question.id}")
                        question, held = AskedQuestion(known.state), known.held
                    question.check_late(answer.by, answer.key, value)
                    return question
            except TimeoutError:
                raise _busy("the replica that runs the job has not decided in time") from None
            finally:
                if offered and question.open:
                    self._tasks.spawn(_quietly(self._shared.drop_answer(answer)), name="drop")

    # ----------------------------------------------------------------------- messages

    async def send(
        self, session: ServerSession, job: ServerJob, request: SendMessage
    ) -> Awaitable[str]:
        """Send a message to a job that another replica runs.

        Returns:
            An awaitable of its state, once the message is queued and this is stored.

        Raises:
            RequestError: the message is refused.
        """
        value = bytes(snapshot(request.value))
        most = min(self._limits.message_bytes, self._limits.event_bytes // 2)
        if len(value) > most:
            raise request_error(
                names.INVALID_REQUEST, f"{len(value)} bytes are over the limit of {most} bytes"
            )
        message = OfferedMessage(
            job_id=job.id,
            message_id=request.message_id,
            mode=request.mode,
            by=session.principal,
            client=session.client,
            value=value,
            fingerprint=fingerprint(request),
        )
        stored = await self._shared.offer_message(message, self._limits.inbox_messages)
        return self._sent(message, stored)

    async def _sent(self, message: OfferedMessage, stored: StoredMessage) -> str:
        with self._listening(message.job_id) as news:
            try:
                async with asyncio.timeout(_PATIENCE):
                    while stored.state == "offered" and stored.fingerprint == message.fingerprint:
                        stored = await self._shared.message(message)
                        if stored.state == "offered":
                            await self._wait(news)
            except TimeoutError:
                raise _busy("the replica that runs the job has not taken it in time") from None
            finally:
                if stored.state in ("offered", "ended", "refused"):
                    self._tasks.spawn(_quietly(self._shared.drop_message(message)), name="drop")
        if stored.fingerprint != message.fingerprint:
            raise DuplicateKey("the message id was used for another message")
        if stored.refusal is not None:
            raise read_refusal(stored.refusal)
        if stored.state == "ended":
            raise JobEnded("the job has ended")
        if stored.state == "full":
            raise _busy("the inbox of the job is full: its agent takes no messages")
        return stored.state


def _busy(message: str) -> RequestError:
    return request_error(names.INTERNAL_ERROR, message, retryable=True)


async def _quietly(call: Awaitable[None]) -> None:
    """Await; what stays in the store because of a failure is swept."""
    with contextlib.suppress(RequestError):
        await call
