"""Keeps the questions of the agents of one replica, beside those of the other replicas.

A replica decides about the questions for which its agents wait. If jobs with the same work id run
on several replicas, the replica that asked first decides. On the other replicas the question is a
*guest*: their agents wait for the decision of the first replica. If that replica stops, another
replica whose agents wait takes the question over.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

import msgspec

from arcp_client._tasks import TaskOwner
from arcp_client._wire import names
from arcp_client._wire.ids import parse_time
from arcp_client.errors import LocalProtocolError, RequestError
from arcp_client.runtime._dialogue import question as states
from arcp_client.runtime._dialogue.book import KnownSessions, QuestionBook
from arcp_client.runtime._dialogue.question import AskedQuestion
from arcp_client.runtime._dialogue.rights import refusal_text
from arcp_client.runtime._jobs.job import ServerJob
from arcp_client.runtime._jobs.outcomes import Failure
from arcp_client.runtime._jobs.registry import JobRegistry
from arcp_client.runtime._log.dialogue import (
    KnownQuestion,
    OfferedAnswer,
    QuestionsMoved,
    SharedDialogue,
)
from arcp_client.runtime._log.entries import QuestionState
from arcp_client.runtime._log.journal import Journal
from arcp_client.runtime.limits import Limits

__all__ = ["SharedQuestionBook"]

T = TypeVar("T")

_FIRST_RETRY = 0.1
_LAST_RETRY = 2.0


class SharedQuestionBook(QuestionBook):
    """The questions of one replica.

    Args:
        jobs: tells which principal may see a job.
        sessions: tells whether a session that can answer exists.
        limits: bounds number, size and time of questions.
        journal: writes the durable log, and calls back once it is written.
        shared: the questions of all replicas.
        tasks: owns the tasks that wait for them.
    """

    def __init__(
        self,
        jobs: JobRegistry,
        sessions: KnownSessions,
        limits: Limits,
        journal: Journal,
        shared: SharedDialogue,
        tasks: TaskOwner,
    ) -> None:
        super().__init__(jobs, sessions, limits, journal, durable=True)
        self._shared = shared
        self._tasks = tasks

    def decides(self, question_id: str) -> bool:
        """Whether this replica decides about a question, or knows how it ended."""
        question = self._questions.get(question_id)
        return question is not None and not (question.open and question.guest)

    async def _can_answer(self, job: ServerJob) -> bool:
        """Whether a session of the job's principal can answer, on any replica."""
        if await super()._can_answer(job):
            return True
        return await self._patiently(
            job, lambda: self._shared.supports(job.principal, names.ASKING)
        )

    # ------------------------------------------------------------------------- asking

    async def _find(self, job: ServerJob, state: QuestionState) -> AskedQuestion:
        """Return the question of the same work, on any replica, or else a new one.

        It is registered to the end, even if the agent is interrupted: other replicas would wait for
        a question that this one has registered and does not know of.
        """
        question = await self._tasks.complete(
            self._register(job, state), name="ask", late=partial(self._interrupted, job)
        )
        if job.ended:
            self._interrupted(job, question)
            raise LocalProtocolError("the job has ended; nothing can be asked any more")
        return question

    async def _register(self, job: ServerJob, state: QuestionState) -> AskedQuestion:
        most = self._limits.open_questions
        while True:
            # Also if the job ends: an attempt whose outcome is not known may have succeeded.
            known = await self._patiently(None, lambda: self._shared.ask(state, job.id, most))
            question = self._adopt(known or KnownQuestion(state, held=True, mine=True))
            if question.open or question.settled:
                return question
            # It was closed here, and this is not stored yet.
            await self._journal.stored()

    async def _patiently(self, job: ServerJob | None, call: Callable[[], Awaitable[T]]) -> T:
        """Repeat a call while the store of the replicas cannot be reached: agents wait for it.

        With a job, only until it has ended.
        """
        delay = _FIRST_RETRY
        while True:
            try:
                return await call()
            except RequestError as error:
                if not error.retryable or (job is not None and job.ended):
                    raise
            await asyncio.sleep(delay)
            delay = min(2 * delay, _LAST_RETRY)

    def _interrupted(self, job: ServerJob, question: AskedQuestion) -> None:
        """Withdraw a question whose agent or job has ended while it was registered."""
        if not question.open or question.waiters:
            return
        stopping = job.stopping
        if not (isinstance(stopping, Failure) and stopping.interrupted):
            self._unwanted(question)

    def _adopt(self, known: KnownQuestion) -> AskedQuestion:
        """Return a question as this replica now knows it."""
        state = known.state
        question = self._questions.get(state.id)
        if question is None:
            question = AskedQuestion(state)
            self._questions[state.id] = question
            if not question.open:
                self._closed.add(question)
            elif known.mine:
                self._decide(question, _seconds_left(state))
            else:
                question.guest = True
                # It may have been closed, and this reported, before `known` was here.
                self._tasks.spawn(self._read(question.id), name="question")
        elif question.guest and question.open:
            if state.state != states.OPEN:
                question.close_as(state)
                self._closed_now(question)
            elif known.mine:
                question.guest = False
                self._decide(question, _seconds_left(state))
        if question.open and state.job_ids:
            question.stored = msgspec.structs.replace(question.stored, job_ids=state.job_ids)
        return question

    def _unwanted(self, question: AskedQuestion) -> None:
        """Forget a guest; the replica that decides about it waits on."""
        if question.guest:
            self._questions.pop(question.id, None)
        else:
            super()._unwanted(question)

    # ------------------------------------------------------------------------ changes

    def _changed(self, job: ServerJob | None, question: AskedQuestion) -> None:
        """Do nothing: the store reports the changes of this replica, too, once they are stored."""

    def changed(self, change: QuestionsMoved) -> None:
        """Apply what replicas have decided; notify the sessions that follow the questions."""
        if change.questions is None:
            self.resync()
            return
        for known in change.questions:
            if not known.mine:
                self._follow_guest(known)
            for notify in self._concerned(known.state, known.agent):
                notify()

    def resync(self) -> None:
        """Read all guests anew, because changes may have been missed."""
        for notify in self._concerned(None, None):
            notify()
        for question in tuple(self._questions.values()):
            if question.guest and question.open:
                self._tasks.spawn(self._read(question.id), name="question")

    def _follow_guest(self, known: KnownQuestion) -> None:
        question = self._questions.get(known.state.id)
        if question is None or not question.guest or not question.open:
            return
        if known.state.state == states.OPEN and not known.held:
            self._tasks.spawn(self._claim(question.id), name="claim")
        else:
            self._adopt(known)

    async def _claim(self, question_id: str) -> None:
        # Until the outcome is known: answers wait for the replica that has claimed the question.
        known = await self._patiently(None, lambda: self._shared.claim(question_id))
        if known is not None:
            self._adopt(known)

    async def _read(self, question_id: str) -> None:
        known = await self._patiently(None, lambda: self._shared.question(question_id))
        if known is not None:
            self._follow_guest(known)

    # ---------------------------------------------------------------------- answering

    def offered(self, answers: Sequence[OfferedAnswer]) -> None:
        """Take answers that clients of other replicas have given."""
        for answer in answers:
            question = self._questions.get(answer.question_id)
            if question is None or question.guest:
                continue  # it is being taken over
            try:
                self._take(
                    question,
                    json.loads(answer.value),
                    by=answer.by,
                    client=answer.client,
                    key=answer.key,
                    job_id=answer.job_id,
                )
            except RequestError as error:
                if question.open:  # else the other replica reads who was first
                    self._tasks.spawn(self._refuse(answer, error), name="refuse")

    async def _refuse(self, answer: OfferedAnswer, error: RequestError) -> None:
        with contextlib.suppress(RequestError):  # the answer waits on, and is checked again
            await self._shared.refuse_answer(answer, refusal_text(error))


def _seconds_left(state: QuestionState) -> float:
    expires_at = parse_time(state.expires_at)
    assert expires_at is not None
    return (expires_at - datetime.now(UTC)).total_seconds()
