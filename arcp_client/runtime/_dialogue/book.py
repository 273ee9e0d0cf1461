"""Keeps the questions of all agents: opens, answers, expires and withdraws them.

Every change is one synchronous step: the state, its event in the log of each job that waits, and
the entry of the durable log. So of two answers, or of an answer and the expiry, exactly one wins.
Agents and clients get to know of the change once it is stored.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Protocol

from arcp_client._log_fields import log_fields
from arcp_client._wire import names
from arcp_client._wire.codec import snapshot
from arcp_client._wire.ids import new_prefixed_id, parse_time, time_text
from arcp_client._wire.messages import Answer
from arcp_client._wire.stamp import canonical
from arcp_client.errors import (
    DuplicateKey,
    FeatureNotNegotiated,
    InvalidAnswer,
    LocalProtocolError,
    PermissionDenied,
    QuestionExpired,
    QuestionNotFound,
)
from arcp_client.runtime._dialogue import question as states
from arcp_client.runtime._dialogue.asked import Asked
from arcp_client.runtime._dialogue.closed import ClosedQuestions
from arcp_client.runtime._dialogue.lease_clock import pause, unpause
from arcp_client.runtime._dialogue.question import AskedQuestion, Waiter
from arcp_client.runtime._jobs.job import ServerJob
from arcp_client.runtime._jobs.outcomes import Failure, Success
from arcp_client.runtime._jobs.registry import JobRegistry
from arcp_client.runtime._log.entries import Forgotten, QuestionState
from arcp_client.runtime._log.journal import Journal
from arcp_client.runtime._sessions.session import ServerSession
from arcp_client.runtime.limits import Limits

__all__ = ["QuestionBook"]

_log = logging.getLogger("arcp_client.runtime")


class _Sessions(Protocol):
    def supports(self, principal: str, feature: str) -> bool: ...


class _AskedByJob:
    """The open questions of one running job, and how often it has asked each question."""

    def __init__(self) -> None:
        self.open: dict[str, AskedQuestion] = {}
        self.times: Counter[str] = Counter()


class QuestionBook:
    """The questions of one runtime.

    Args:
        jobs: tells which principal may see a job.
        sessions: tells whether anybody can answer.
        limits: bounds number, size and time of questions.
        journal: writes the durable log, and calls back once it is written.
        durable: whether the log is durable.
    """

    def __init__(
        self,
        jobs: JobRegistry,
        sessions: _Sessions,
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
        self._count: Counter[str] = Counter()
        self._by_work: dict[tuple[str, str, str, str], AskedQuestion] = {}
        self._of: dict[ServerJob, _AskedByJob] = {}
        self._closed = ClosedQuestions(limits, self._forget)
        self._followers: dict[ServerSession, Callable[[], None]] = {}

    # ------------------------------------------------------------------------- asking

    async def ask(self, job: ServerJob, asked: Asked, timeout: float | None) -> Any:
        """Ask a question and wait for its end; see `JobContext.ask`."""
        question, waiter = self._wait(job, asked, timeout)
        try:
            await waiter.closed
        except asyncio.CancelledError:
            self._leave(question, waiter)
            raise
        return self._value(question, waiter)

    def _wait(
        self, job: ServerJob, asked: Asked, timeout: float | None
    ) -> tuple[AskedQuestion, Waiter]:
        if job.ended:
            raise LocalProtocolError("the job has ended; nothing can be asked any more")
        of_job = self._follow(job)
        of_job.times[asked.fingerprint] += 1
        key = asked.key or f"{asked.fingerprint}:{of_job.times[asked.fingerprint]}"
        agent = job.agent.partition("@")[0]
        known = self._by_work.get((job.principal, agent, job.work_id or job.id, key))
        if known is not None and known.open and known.overdue(self._now()):
            self._expire(known)
        if known is None or not (known.open or known.settled):
            known = self._ask_anew(job, asked, key, timeout)
        waiter = Waiter(job, asked.converter, asyncio.get_running_loop().create_future())
        with self._together():
            if job.id not in known.stored.job_ids:
                known.taken_over(job)
            if job.id not in known.jobs:
                known.jobs[job.id] = job
                if known.open:
                    of_job.open[known.id] = known
                    pause(job, self._now())
                self._put(known)
                job.emit(names.QUESTION, known.body(paused=job.paused_at is not None))
                if not known.open:
                    kind, body = known.closing()
                    job.emit(kind, body)
        known.waiters.append(waiter)
        if not known.open:
            self._journal.then(partial(_release, [waiter]))
        elif not known.stored.to and not self._can_answer(job):
            self._nobody(known)
        return known, waiter

    def _ask_anew(
        self, job: ServerJob, asked: Asked, key: str, timeout: float | None
    ) -> AskedQuestion:
        limits = self._limits
        if asked.size > self._most:
            raise ValueError(
                f"a question of {asked.size} bytes is over the limit of {self._most} bytes"
            )
        if self._count[job.principal] >= limits.open_questions:
            raise LocalProtocolError(
                f"the principal of this job has {limits.open_questions} open questions already"
            )
        seconds = limits.question_time if timeout is None else min(timeout, limits.question_time)
        self._number += 1
        now = datetime.now(UTC)
        stored = QuestionState(
            id=new_prefixed_id("q"),
            number=self._number,
            principal=job.principal,
            agent=job.agent.partition("@")[0],
            work=job.work_id or job.id,
            durable_work=job.work_id is not None,
            key=key,
            job_ids=(),
            text=asked.text,
            schema=asked.schema,
            options=asked.options,
            to=asked.to,
            asked_at=time_text(now),
            expires_at=time_text(now + timedelta(seconds=seconds)),
            default=asked.default,
        )
        question = AskedQuestion(stored, json.loads(asked.schema))
        self._add(question, seconds)
        self._changed(job, question)
        return question

    def _add(self, question: AskedQuestion, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._questions[question.id] = self._open[question.id] = question
        self._by_work[question.work] = question
        self._count[question.stored.principal] += 1
        question.deadline = loop.time() + seconds
        question.timer = loop.call_at(question.deadline, self._expire, question)

    def _can_answer(self, job: ServerJob) -> bool:
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
            self._close(question, states.WITHDRAWN, reason="agent")

    def _value(self, question: AskedQuestion, waiter: Waiter) -> Any:
        if question.settled:
            return waiter.converter.convert(json.loads(bytes(question.value)))
        if question.stored.state == states.EXPIRED:
            raise QuestionExpired(
                f"nobody answered {question.stored.text[:200]!r} in time",
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

    def answer(self, session: ServerSession, request: Answer) -> AskedQuestion:
        """Take an answer. The caller confirms it once it is stored.

        Raises:
            RequestError: the answer is refused; the question does not change.
        """
        question = self._questions.get(request.question_id)
        principal = session.principal
        if question is None or not self._sees(principal, question):
            raise QuestionNotFound(f"there is no question {request.question_id[:80]}")
        if request.job_id not in question.stored.job_ids:
            raise QuestionNotFound(
                f"job {request.job_id[:80]} has not asked the question {question.id}"
            )
        if not self._may_answer(principal, question):
            raise PermissionDenied("this question is for other principals")
        self._jobs.check_log()
        value = bytes(snapshot(request.value))
        stored = question.stored
        if question.open and question.overdue(self._now()):
            self._expire(question)
        if not question.open:
            key = request.idempotency_key
            if key is not None and key == stored.answer_key and stored.by == principal:
                if canonical(json.loads(stored.value or b"null")) != canonical(request.value):
                    raise DuplicateKey("the idempotency key was used for another answer")
                return question
            raise question.refusal()
        if len(value) > self._most:
            raise InvalidAnswer(
                f"$: {len(value)} bytes are over the limit of {self._most} bytes",
                details={"path": "$"},
            )
        self._check(question, request.value)
        _log.info(
            "%s answers question %s of job %s",
            principal,
            question.id,
            request.job_id,
            extra=log_fields(session=session.id, job=request.job_id),
        )
        self._close(
            question,
            states.ANSWERED,
            value=value,
            by=principal,
            client=session.client,
            key=request.idempotency_key,
        )
        return question

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
        if job is None:
            return principal == question.stored.principal
        return self._jobs.visible(principal, job)

    def _may_answer(self, principal: str, question: AskedQuestion) -> bool:
        stored = question.stored
        return principal in stored.to if stored.to else principal == stored.principal

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
        stored = question.stored
        del self._open[question.id]
        self._count[stored.principal] -= 1
        if not self._count[stored.principal]:
            del self._count[stored.principal]
        kind, body = question.closing()
        with self._together():
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
            if others or (interrupted and question.stored.durable_work):
                # The question stays open: for another job, or for the next one of this work.
                left = [waiter for waiter in question.waiters if waiter.job is job]
                question.waiters = others
                question.jobs.pop(job.id, None)
                _release(left)
            else:
                self._close(question, states.WITHDRAWN, reason="job_ended")
        del self._of[job]

    # ------------------------------------------------------------------------ listing

    def page(
        self, session: ServerSession, start: int, limit: int, size: int
    ) -> tuple[list[dict[str, Any]], int | None]:
        """Return the open questions that a session may see, above a number; and the next number."""
        entries: list[dict[str, Any]] = []
        last = used = 0
        for question in self._open.values():
            stored = question.stored
            if stored.number <= start or not self._sees(session.principal, question):
                continue
            if len(entries) == limit or used > size:
                return entries, last
            paused = any(job.paused_at is not None for job in question.jobs.values())
            may_answer = self._may_answer(session.principal, question)
            entries.append(question.entry(may_answer=may_answer, paused=paused))
            last = stored.number
            used += stored.size
        return entries, None

    def follow(self, session: ServerSession, notify: Callable[[], None]) -> None:
        """Call back once, at the next change of the questions that a session may see."""
        self._followers[session] = notify

    def _changed(self, job: ServerJob | None, question: AskedQuestion) -> None:
        for session in tuple(self._followers):
            if session.expired:
                del self._followers[session]
            elif session.principal == question.stored.principal or (
                job is not None and self._jobs.visible(session.principal, job)
            ):
                notify = self._followers.pop(session)
                self._journal.then(notify)

    # ------------------------------------------------------------------------ storing

    def restore(self, stored: Sequence[QuestionState]) -> None:
        """Restore stored questions. Those of jobs that were cut short are closed at their end."""
        for state in stored:
            question = AskedQuestion(state, json.loads(state.schema))
            self._number = max(self._number, state.number)
            if not question.open:
                self._questions[question.id] = question
                if question.settled:
                    self._by_work[question.work] = question
                self._closed.add(question)
                continue
            expires_at = parse_time(state.expires_at)
            assert expires_at is not None
            self._add(question, (expires_at - datetime.now(UTC)).total_seconds())
            job = self._jobs.get(state.job_ids[-1])
            if job is not None and not job.ended:
                question.jobs[job.id] = job
                self._follow(job).open[question.id] = question

    def close(self) -> None:
        """Stop all timers."""
        for question in self._open.values():
            question.stop()

    def _put(self, question: AskedQuestion) -> None:
        if self._durable:
            self._journal.put(question.stored)

    @contextlib.contextmanager
    def _together(self) -> Iterator[None]:
        with self._journal.together():
            yield

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def _release(waiters: list[Waiter]) -> None:
    for waiter in waiters:
        if not waiter.closed.done():
            waiter.closed.set_result(None)
