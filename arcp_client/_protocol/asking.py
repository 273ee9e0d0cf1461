"""Steps of a job on its way back in, the request that takes it out; or what stands for its end."""

from __future__ import annotations

from typing import Final

from arcp_client._protocol.jobs import KnownJob
from arcp_client._protocol.requests import Request
from arcp_client._protocol.steps import Ask, Asking, Attach, Fetch, Look
from arcp_client._wire import dialect
from arcp_client._wire.messages import ListJobs, Subscribe
from arcp_client.errors import ArcpError, JobLost, ResultUnavailable, job_error

__all__ = ["hearing", "no_outcome", "request_for"]

_CODES: Final = {
    dialect.STATUS_CANCELLED: dialect.CODE_CANCELLED,
    dialect.TIMED_OUT: dialect.TIMEOUT,
    dialect.ERROR: dialect.INTERNAL_ERROR,
}
"""Codes for jobs of which nothing is known but how they ended."""


def request_for(step: Attach | Look | Fetch, job: KnownJob, deadline: float) -> Request:
    """The request that takes a step; its token says for which job it is."""
    if isinstance(step, Attach):
        subscribe = Subscribe(
            job_id=step.job_id, history=step.history, from_event_seq=step.from_seq
        )
        return Request(
            kind=dialect.SUBSCRIBE,
            payload=subscribe.wire(),
            deadline=deadline,
            job_id=step.job_id,
            token=Asking(Ask.ATTACH, step.job_id, renew=step.renew),
        )
    if isinstance(step, Look):
        return Request(
            kind=dialect.LIST_JOBS,
            payload=ListJobs(limit=1000, cursor=step.cursor).wire(),
            deadline=deadline,
            token=Asking(Ask.LOOK, step.job_id),
        )
    return Request(
        kind=dialect.SUBMIT,
        payload=job.payload,
        deadline=deadline,
        trace_id=job.trace_id,
        key=job.key,
        token=Asking(Ask.FETCH, step.job_id),
    )


def hearing(job_id: str, *, from_seq: int, deadline: float) -> Request:
    """The request that has a resumed session hear of a job of its own again."""
    subscribe = Subscribe(job_id=job_id, history=True, from_event_seq=from_seq or None)
    return Request(
        kind=dialect.SUBSCRIBE,
        payload=subscribe.wire(),
        deadline=deadline,
        job_id=job_id,
        token=Asking(Ask.HEAR, job_id),
    )


def no_outcome(job_id: str, status: str, why: str) -> ArcpError:
    """What a job ends with here, of which the runtime tells its status, or not even that."""
    if status == dialect.SUCCESS:
        text = f"job {job_id} succeeded, but its result can no longer be had ({why})"
        return ResultUnavailable(text, job_id=job_id)
    if status:
        text = f"the runtime tells no more than its status ({why})"
        return job_error(_CODES.get(status, ""), text, status=status, job_id=job_id)
    return JobLost(f"job {job_id}: the runtime no longer knows it ({why})", job_id=job_id)
