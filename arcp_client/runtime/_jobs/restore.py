"""Restores sessions and jobs from a durable log after a restart; unfinished jobs fail (§6.3)."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial

import msgspec

from arcp_client._wire import names
from arcp_client._wire.ids import parse_time
from arcp_client._wire.stamp import Record, job_part
from arcp_client.models import Lease
from arcp_client.runtime._jobs.idempotency import IdempotencyKeys
from arcp_client.runtime._jobs.job import JobOrigin, JobRequest, ServerJob
from arcp_client.runtime._jobs.outcomes import Failure
from arcp_client.runtime._jobs.registry import JobRegistry
from arcp_client.runtime._leases.grant import Grant
from arcp_client.runtime._log.entries import LoggedJobState, QuestionState, Stored
from arcp_client.runtime._sessions.registry import SessionRegistry
from arcp_client.runtime._sessions.session import ServerSession, SubscriptionFeed

__all__ = ["restore", "stored_job"]

_log = logging.getLogger("arcp_client.runtime")

Broken = Callable[[ServerSession, SubscriptionFeed], None]

_CUT_SHORT = Failure(
    names.ERROR,
    names.INTERNAL_ERROR,
    "the runtime was restarted while the job was running",
    retryable=True,
    interrupted=True,
)


def restore(
    stored: Stored,
    sessions: SessionRegistry,
    jobs: JobRegistry,
    keys: IdempotencyKeys,
    broken: Broken,
    questions: Callable[[Sequence[QuestionState]], None],
) -> None:
    """Restore sessions, jobs, keys and questions from a durable log.

    Jobs that were running end now. Their sessions get the terminal events when they resume.
    """
    known = {state.id: sessions.restore(state) for state in stored.sessions}
    found = {
        state.id: stored_job(state, jobs.reenter, known.get(state.owner_id))
        for state in stored.jobs
    }
    records = _records(stored)
    for entry in stored.appended:
        event = entry.record
        job = found.get(event.job_id)
        if job is not None:
            job.history.restore(event.index, entry.seq, records[event.job_id, event.index])
            job.last_seq = max(job.last_seq, entry.seq)
    _number(stored, known, records)
    for watch in stored.watches:
        session, job = known.get(watch.session_id), found.get(watch.job_id)
        if session is None or job is None or watch.next is None:
            continue
        feed = SubscriptionFeed(session, job.id, job.history, watch.next, partial(broken, session))
        feed.first = watch.first
        session.feeds[job.id] = feed
        job.feeds[session] = feed
    for key in stored.keys:
        keys.restore(key)
    questions(stored.questions)
    _settle(found, {state.id: state for state in stored.jobs}, jobs)


def _records(stored: Stored) -> dict[tuple[str, int], Record]:
    moment = asyncio.get_running_loop().time()
    parts = {s.id: job_part(s.id, s.trace_id) for s in (*stored.jobs, *stored.forgotten)}
    return {
        (event.job_id, event.index): msgspec.structs.replace(
            event, job=parts[event.job_id], at=moment
        )
        for event in (entry.record for entry in stored.appended)
        if event.job_id in parts
    }


def _number(
    stored: Stored, known: dict[str, ServerSession], records: dict[tuple[str, int], Record]
) -> None:
    for number in stored.numbered:
        session = known.get(number.session_id)
        if session is None:
            continue
        record = records.get((number.job_id, number.index))
        if number.seq <= session.log.last:
            continue
        if record is None or number.seq != session.log.last + 1:
            # The sequence has a hole here: only events above it can be resumed.
            session.log.restore(number.seq if record is None else number.seq - 1)
        if record is not None:
            session.log.append(record)
    for session in known.values():
        session.log.settled = session.sent = session.log.last


def _settle(
    found: dict[str, ServerJob], states: dict[str, LoggedJobState], jobs: JobRegistry
) -> None:
    for job_id, job in found.items():
        ended = states[job_id].ended
        if ended is None:
            _log.warning(
                "job %s (%s) was cut short by a restart", job.id, job.agent, extra=job.log_fields
            )
            job.end(_CUT_SHORT)
            jobs.cut_short(job)
        else:
            moment = parse_time(ended)
            age = 0.0 if moment is None else (datetime.now(UTC) - moment).total_seconds()
            jobs.restored(job, max(age, 0.0))
        for feed in tuple(job.feeds.values()):
            feed.push()


def stored_job(
    state: LoggedJobState,
    enter: Callable[[LoggedJobState, JobRequest, JobOrigin], ServerJob],
    session: ServerSession | None,
) -> ServerJob:
    """Make a job from its stored state; it is never run.

    Args:
        state: the stored state.
        enter: registers the job.
        session: the session that submitted it, if that session still exists.
    """
    grant = Grant(Lease(state.lease), parse_time(state.expires_at))
    request = JobRequest(
        state.agent, _no_function, None, grant, state.trace_id, work_id=state.work_id
    )
    owner = session if state.ended is None else None
    origin = JobOrigin(state.principal, state.owner_id, owner, set(state.authorities))
    job = enter(state, request, origin)
    job.parent_id = state.parent_id
    job.delegate_id = state.delegate_id
    job.accepted = json.loads(state.accepted)
    job.budget.remaining = {unit: Decimal(left) for unit, left in state.remaining.items()}
    if state.ended is not None:
        job.status = state.status
        job.request = None
        job.done.set()
    return job


def _no_function(*_: object) -> None:
    raise AssertionError("a restored job is never run")
