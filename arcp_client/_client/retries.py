"""Submits a job again after a retryable error, as a new job with the same ``work_id``."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial

from arcp_client._attempts import Attempts
from arcp_client._client.submission import Submission
from arcp_client._jobrecord import JobRecord
from arcp_client._log_fields import log_fields
from arcp_client._tasks import TaskOwner
from arcp_client.errors import ArcpError, RequestError
from arcp_client.events import Failed

__all__ = ["Retries"]

_log = logging.getLogger("arcp_client.client")

_FIRST = 1.0
_LAST = 30.0
"""Bounds of the pause before an attempt, in seconds."""


class Retries:
    """The jobs of one client that are submitted again when they fail.

    Args:
        submit: submits an attempt, with a trace id; returns its record.
        open: the jobs that may be submitted again; they are closed with the client.
    """

    def __init__(
        self,
        submit: Callable[[Submission, str | None], Awaitable[JobRecord]],
        open: dict[Attempts[JobRecord], None],
    ) -> None:
        self._submit = submit
        self._tasks = TaskOwner("arcp_client retries")
        self._open = open

    def keep(self, first: JobRecord, submission: Submission, retries: int) -> None:
        """Begin a job again, up to ``retries`` times, unless it is kept already."""
        if first.attempts is not None:
            return
        attempts = first.attempts = Attempts(first)
        self._open[attempts] = None
        task = self._tasks.spawn(self._keep(attempts, submission, retries), name="retry")
        attempts.stop = partial(self._stop, attempts, task)

    def _stop(self, attempts: Attempts[JobRecord], task: asyncio.Task[None]) -> None:
        self._open.pop(attempts, None)
        if task is not asyncio.current_task():
            task.cancel()

    async def _keep(
        self, attempts: Attempts[JobRecord], submission: Submission, retries: int
    ) -> None:
        attempt = attempts.latest
        for n in range(1, retries + 1):
            await attempt.until_over()
            failure = attempt.failure
            if failure is None or not failure.retryable or failure.status != "error":
                break
            await asyncio.sleep(_pause(n, failure))
            try:
                following = await self._submit(submission.attempt(n), attempt.trace_id)
            except RequestError as error:
                attempts.refusal = f"attempt {n + 1} was refused: {error}"
                _log.warning(
                    "job %s is not submitted again: %s",
                    attempt.job_id,
                    error,
                    extra=log_fields(job=attempt.job_id),
                )
                if not error.retryable:
                    break
                continue
            except ArcpError:  # the client has ended, and says so to the callers
                return
            _log.info(
                "job %s has failed (%s); it is submitted again as job %s, attempt %d of %d",
                attempt.job_id,
                failure.code,
                following.job_id,
                n + 1,
                retries + 1,
                extra=log_fields(job=following.job_id),
            )
            attempts.refusal = None
            following.attempts = attempts
            attempts.add(following)
            attempt = following
        else:
            await attempt.until_over()
        attempts.close()


def _pause(attempt: int, failure: Failed) -> float:
    """Return the seconds to wait before an attempt: growing, random, less if it failed long ago."""
    whole = min(_LAST, _FIRST * 2.0 ** min(attempt - 1, 16)) * random.uniform(0.5, 1.0)
    if failure.ts is None:
        return whole
    since = (datetime.now(UTC) - failure.ts).total_seconds()
    return max(0.0, whole - max(0.0, since))
