"""Keeps the questions of all agents: opens, answers, expires and withdraws them.

Jobs of the same work that ask the same question wait for one answer. Each change sets the
question's state, emits an event in each of these jobs, and writes an entry for the durable log, in
one synchronous step. So of two answers, or of an answer and the expiry, only the first has an
effect. Agents and clients learn of a change after it is stored.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Protocol

from arcp_client._log_fields import log_fields
from arcp_client._wire import names
from arcp_client._wire.ids import parse_time, time_text
from arcp_client._wire.messages import Answer
from arcp_client._wire.stamp import timestamp
from arcp_client.errors import (
    FeatureNotNegotiated,
    InvalidAnswer,
    LocalProtocolError,
    QuestionExpired,
    QuestionNotFound,
)
from arcp_client.runtime._dialogue import question as states
from arcp_client.runtime._dialogue.asked import Asked
from arcp_client.runtime._dialogue.closed import ClosedQuestions
from arcp_client.runtime._dialogue.lease_clock import pause, unpause
from arcp_client.runtime._dialogue.question import AskedQuestion, Waiter
from arcp_client.runtime._dialogue.rights import check_rights, checked_size, sees
from arcp_client.runtime._jobs.job import ServerJob
from arcp_client.runtime._jobs.outcomes import Failure, Success
from arcp_client.runtime._jobs.registry import JobRegistry
from arcp_client.runtime._log.dialogue import OfferedAnswer, QuestionsMoved
from arcp_client.runtime._log.entries import Forgotten, QuestionState
from arcp_client.runtime._log.journal import Journal
from arcp_client.runtime._sessions.session import ServerSession
from arcp_client.runtime.limits import Limits

__all__ = ["KnownSessions", "QuestionBook"]

_log = logging.getLogger("arcp_client.runtime")


class KnownSessions(Protocol):
    """Tells which features the sessions of a principal have negotiated."""

    def supports(self, principal: str, feature: str) -> bool:
        """Whether any of them has negotiated a feature."""


class _AskedByJob:
    """The open questions of one running job, and how often it has asked each question."""

    def __init__(self) -> None:
        self.open: dict[str, AskedQuestion] = {}
        self.times: dict[str, int] = {}


class QuestionBook:
    """The questions of one runtime.

    Args:
        jobs: tells which principal may see a job.
        sessions: tells whether a session that can answer exists.
        limits: bounds number, size and time of questions.
        journal: writes the durable log, and calls back once it is written.
        durable: whether the log is durable.
    """

    def __init__(
        self,
        jobs: JobRegistry,
        sessions: KnownSessions,
        limits: Limits,
        journal: Journal,
        *,
        durable: bool,
    ) -> None:
        self._jobs = jobs
        self._sessions = sessions
        self._limits = limits
        self._journal = journal
        self._durable = durable
        self._most = min(limits.question_bytes, limits.event_bytes // 2)
        self._number = 0
        self._questions: dict[str, AskedQuestion] = {}
        self._open: dict[str, AskedQuestion] = {}
        self._count: dict[str, int] = {}
        self._by_work: dict[tuple[str, str, str, str], AskedQuestion] = {}
        self._of: dict[ServerJob, _AskedByJob] = {}
        self._closed = ClosedQuestions(limits, self._forget)
        self._followers: dict[ServerSession, Callable[[], None]] = {}

    # ------------------------------------------------------------------------- asking

    async def ask(self, job: ServerJob, asked: Asked, timeout: float | None) -> Any:
        """Ask a question and wait for its end; see `JobContext.ask`."""
        key = self._key(job, asked)
        can_answer = bool(asked.to) or await self._can_answer(job)
        longest = self._limits.question_time
        seconds = longest if timeout is None else min(timeout, longest)
        while True:
            question = await self._find(job, self._state(job, asked, key, seconds))
            waiter = self._wait(question, job, asked, seconds, can_answer=can_answer)
            try:
                await waiter.closed
            except asyncio.CancelledError:
                self._leave(question, waiter)
                raise
            if not question.guest or question.stored.state != states.WITHDRAWN:
                return self._value(question, waiter)
            # A job of this work on another replica has withdrawn it: this one asks for itself.

    def _key(self, job: ServerJob, asked: Asked) -> str:
        """Return the key of a question within its work; empty if its id serves as the key."""
        if job.ended:
            raise LocalProtocolError("the job has ended; nothing can be asked any more")
        size = asked.size
        if size > self._most:
            raise ValueError(f"a question of {size} bytes is over the limit of {self._most} bytes")
        if job.work_id is None:  # no later job can ask it again
            return asked.key or ""
        times = self._follow(job).times
        fingerprint = asked.fingerprint
        count = times[fingerprint] = times.get(fingerprint, 0) + 1
        return asked.key or f"{fingerprint}:{count}"

    async def _find(self, job: ServerJob, state: QuestionState) -> AskedQuestion:
        """Return the question of the same work that is open or has a value, or else a new one."""
        question = AskedQuestion(state)
        known = self._by_work.get(question.work)
        if known is not None:
            if known.open and known.overdue(self._now()):
                self._expire(known)
            if known.open or known.settled:
                return known
        most = self._limits.open_questions
        if self._count.get(job.principal, 0) >= most:
            raise LocalProtocolError(f"the principal of this job has {most} open questions already")
        return question

    def _wait(
        self,
        question: AskedQuestion,
        job: ServerJob,
        asked: Asked,
        seconds: float,
        *,
        can_answer: bool,
    ) -> Waiter:
        is_open = question.open
        with self._journal.together():
            if job.id not in question.stored.job_ids:
                question.taken_over(job)
            if job.id not in question.jobs:
                question.jobs[job.id] = job
                if is_open:
                    self._follow(job).open[question.id] = question
                    if job.grant.pauses:
                        pause(job, self._now())
                paused = job.paused_at is not None
                if is_open and question.stored.paused is not paused:
                    question.pauses(paused)
                self._put(question)
                job.emit(names.QUESTION, question.body(paused=paused))
                if not is_open:
                    kind, body = question.closing()
                    job.emit(kind, body)
        if is_open and question.timer is None and not question.guest:  # it is new
            self._decide(question, seconds)  # after its event, which is then sent earlier
        waiter = Waiter(job, asked.form.converter, asyncio.get_running_loop().create_future())
        question.waiters.append(waiter)
        if not is_open:
            self._journal.then(partial(_release, [waiter]))
            return waiter
        if question.stored.job_ids == (job.id,):
            self._changed(job, question)
        if not can_answer and not question.guest:
            self._nobody(question)
        return waiter

    def _state(self, job: ServerJob, asked: Asked, key: str, seconds: float) -> QuestionState:
        self._number += 1
        id_ = job.new_id("q")
        return QuestionState(
            id=id_,
            number=self._number,
            principal=job.principal,
            agent=job.agent.partition("@")[0],
            work=job.work_id or job.id,
            durable_work=job.work_id is not None,
            key=key or id_,
            job_ids=(job.id,),
            text=asked.text,
            schema=asked.form.schema,
            options=asked.form.options,
            to=asked.to,
            asked_at=timestamp(),
            expires_at=time_text(datetime.fromtimestamp(time.time() + seconds, UTC)),
            default=asked.default,
        )

    def _decide(self, question: AskedQuestion, seconds: float) -> None:
        """Decide about an open question from now on; it expires in ``seconds``."""
        loop = asyncio.get_running_loop()
        self._questions[question.id] = self._open[question.id] = question
        self._by_work[question.work] = question
        principal = question.stored.principal
        self._count[principal] = self._count.get(principal, 0) + 1
        question.deadline = loop.time() + seconds
        question.timer = loop.call_at(question.deadline, self._expire, question)

    async def _can_answer(self, job: ServerJob) -> bool:
        """Whether a session of the job's principal can answer."""
        owner = job.owner
        if owner is not None and names.ASKING in owner.features:
            return True
        return self._sessions.supports(job.principal, names.ASKING)

    def _nobody(self, question: AskedQuestion) -> None:
        """Close a question at once, because no session of its principal can answer it."""
        if question.stored.default is not None:
            self._close(question, states.DEFAULTED, value=question.stored.default)
        else:
            self._close(question, states.WITHDRAWN, reason="not_negotiated")

    def _leave(self, question: AskedQuestion, waiter: Waiter) -> None:
        """Withdraw a question whose agent stopped waiting, unless another one waits for it."""
        if waiter in question.waiters:
            question.waiters.remove(waiter)
        if waiter.job.stopping is None and question.open and not question.waiters:
            self._unwanted(question)

    def _unwanted(self, question: AskedQuestion) -> None:
        """Handle an open question for which no agent waits any more."""
        self._close(question, states.WITHDRAWN, reason="agent")

    def _value(self, question: AskedQuestion, waiter: Waiter) -> Any:
        if question.settled:
            return waiter.converter.convert(json.loads(bytes(question.value)))
        if question.stored.state == states.EXPIRED:
            raise QuestionExpired(
                f"the question {question.stored.text[:200]!r} was not answered in time",
                code=names.QUESTION_EXPIRED,
                retryable=True,
                job_id=waiter.job.id,
            )
        if question.reason == "not_negotiated":
            raise FeatureNotNegotiated(
                f"no client of {question.stored.principal} can answer: none has negotiated"
                f" {names.ASKING}",
            )
        raise LocalProtocolError("the job has ended; its question was withdrawn")

    # ---------------------------------------------------------------------- answering

    def decides(self, question_id: str) -> bool:
        """Whether this replica decides about a question, or knows how it ended."""
        return question_id in self._questions

    def answer(self, session: ServerSession, request: Answer) -> AskedQuestion:
        """Take an answer. The caller confirms it once it is stored.

        Raises:
            RequestError: the answer is refused; the question does not change.
        """
        question = self._questions.get(request.question_id)
        principal = session.principal
        if question is None or not self._sees(principal, question):
            raise QuestionNotFound(f"there is no question {request.question_id[:80]}")
        check_rights(question, principal, request.job_id)
        self._jobs.check_log()
        self._take(
            question,
            request.value,
            by=principal,
            client=session.client,
            key=request.idempotency_key,
            job_id=request.job_id,
            session=session.id,
        )
        return question

    def _take(
        self,
        question: AskedQuestion,
        value: Any,
        *,
        by: str,
        client: str,
        key: str | None,
        job_id: str,
        session: str = "",
    ) -> None:
        """Close an open question with an answer, or refuse the answer."""
        if question.open and question.overdue(self._now()):
            self._expire(question)
        if not question.open:
            question.check_late(by, key, value)
            return
        encoded = checked_size(value, self._most)
        self._check(question, value)
        _log.info(
            "%s answers question %s of job %s",
            by,
            question.id,
            job_id,
            extra=log_fields(session=session, job=job_id),
        )
        self._close(question, states.ANSWERED, value=encoded, by=by, client=client, key=key)

    def _check(self, question: AskedQuestion, value: Any) -> None:
        try:
            fault = question.fault(value)
        except Exception:  # noqa: BLE001 - a validator of the agent may raise anything
            _log.exception("the answer to question %s could not be checked", question.id)
            fault = "$", "the agent's check of the answer failed"
        if fault is not None:
            raise InvalidAnswer(f"{fault[0]}: {fault[1]}", details={"path": fault[0]})

    def _sees(self, principal: str, question: AskedQuestion) -> bool:
        job = self._jobs.get(question.stored.job_ids[-1])
        return sees(self._jobs, principal, question.stored, None if job is None else job.agent)

    def offered(self, answers: Sequence[OfferedAnswer]) -> None:
        """Take answers that clients of other replicas have given: there are none."""

    def changed(self, change: QuestionsMoved) -> None:
        """Apply what other replicas have decided: there are none."""

    # ------------------------------------------------------------------------ closing

    def _expire(self, question: AskedQuestion) -> None:
        if not question.open:
            return
        default = question.stored.default
        state = states.EXPIRED if default is None else states.DEFAULTED
        self._close(question, state, value=default)

    def _close(self, question: AskedQuestion, state: str, **how: Any) -> None:
        """Close a question: state, events and log in one step. Then agents continue."""
        question.close(state, **how)
        del self._open[question.id]
        principal = question.stored.principal
        self._count[principal] -= 1
        if not self._count[principal]:
            del self._count[principal]
        self._closed_now(question)

    def _closed_now(self, question: AskedQuestion) -> None:
        stored = question.stored
        kind, body = question.closing()
        with self._journal.together():
            self._put(question)
            for job in question.jobs.values():
                of_job = self._of.get(job)
                if of_job is not None:
                    of_job.open.pop(question.id, None)
                    moved = None if of_job.open else unpause(job, self._now(), self._jobs)
                    job.emit(kind, body if moved is None else body | {"lease_expires_at": moved})
        for job in question.jobs.values():
            self._changed(job, question)
        if not question.jobs:
            self._changed(self._jobs.get(stored.job_ids[-1]), question)
        question.jobs.clear()
        waiters, question.waiters = question.waiters, []
        self._journal.then(partial(_release, waiters))
        self._closed.add(question)

    def _forget(self, question: AskedQuestion) -> None:
        """Drop a closed question, because newer ones need the room."""
        self._questions.pop(question.id, None)
        if self._by_work.get(question.work) is question:
            del self._by_work[question.work]
        if self._durable:
            self._journal.put(Forgotten(question.id))

    def _follow(self, job: ServerJob) -> _AskedByJob:
        """Return the questions of a job; close the open ones before its end."""
        found = self._of.get(job)
        if found is None:
            found = self._of[job] = _AskedByJob()
            job.closers.append(partial(self._job_ends, job))
        return found

    def _job_ends(self, job: ServerJob, outcome: Success | Failure) -> None:
        of_job = self._of[job]
        interrupted = isinstance(outcome, Failure) and outcome.interrupted
        for question in tuple(of_job.open.values()):
            others = [waiter for waiter in question.waiters if waiter.job is not job]
            if question.guest or others or (interrupted and question.stored.durable_work):
                # The question stays open: for another job, or for the next one of this work.
                left = [waiter for waiter in question.waiters if waiter.job is job]
                question.waiters = others
                question.jobs.pop(job.id, None)
                _release(left)
                if question.guest and not others:
                    self._unwanted(question)
            else:
                self._close(question, states.WITHDRAWN, reason="job_ended")
        del self._of[job]

    # ------------------------------------------------------------------------ listing

    def page(
        self, session: ServerSession, start: int, limit: int, size: int
    ) -> tuple[list[dict[str, Any]], int | None]:
        """Return the open questions that a session may see, above a number; and the next number."""
        principal = session.principal
        entries: list[dict[str, Any]] = []
        last = used = 0
        for question in self._open.values():
            stored = question.stored
            if stored.number <= start or not self._sees(principal, question):
                continue
            if len(entries) == limit or used > size:
                return entries, last
            may_answer = question.may_be_answered_by(principal)
            entries.append(question.entry(may_answer=may_answer, waiting=bool(question.waiters)))
            last = stored.number
            used += stored.size
        return entries, None

    def follow(self, session: ServerSession, notify: Callable[[], None]) -> None:
        """Call back once, at the next change of the questions that a session may see."""
        self._followers[session] = notify

    def _changed(self, job: ServerJob | None, question: AskedQuestion) -> None:
        agent = None if job is None else job.agent
        for notify in self._concerned(question.stored, agent):
            self._journal.then(notify)

    def _concerned(
        self, state: QuestionState | None, agent: str | None
    ) -> Iterator[Callable[[], None]]:
        """Yield the notices of the sessions that may see a question; of all for ``None``."""
        for session in tuple(self._followers):
            if session.expired or session.lost:
                del self._followers[session]
            elif state is None or sees(self._jobs, session.principal, state, agent):
                yield self._followers.pop(session)

    # ------------------------------------------------------------------------ storing

    def restore(self, stored: Sequence[QuestionState]) -> None:
        """Restore stored questions. Those of jobs that were cut short are closed at their end."""
        for state in stored:
            question = AskedQuestion(state)
            self._number = max(self._number, state.number)
            if not question.open:
                self._questions[question.id] = question
                if question.settled:
                    self._by_work[question.work] = question
                self._closed.add(question)
                continue
            expires_at = parse_time(state.expires_at)
            assert expires_at is not None
            self._decide(question, (expires_at - datetime.now(UTC)).total_seconds())
            job = self._jobs.get(state.job_ids[-1])
            if job is not None and not job.ended:
                question.jobs[job.id] = job
                self._follow(job).open[question.id] = question

    def drop(self) -> None:
        """Forget all questions without storing anything, because this replica lost its lease."""
        self.close()
        for collection in (self._questions, self._open, self._by_work, self._count, self._of):
            collection.clear()

    def close(self) -> None:
        """Stop all timers."""
        for question in self._open.values():
            question.stop()

    def _put(self, question: AskedQuestion) -> None:
        if self._durable and not question.guest:
            self._journal.put(question.stored)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def _release(waiters: list[Waiter]) -> None:
    for waiter in waiters:
        if not waiter.closed.done():
            waiter.closed.set_result(None)
