"""Shares one subscription of a job among the calls that ask for the job."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from arcp_client._log_fields import log_fields
from arcp_client._tasks import TaskOwner
from arcp_client.client import Client
from arcp_client.errors import ArcpError
from arcp_client.job import Job, JobHandle, JobView
from arcp_client.projection import ENDED

__all__ = ["Watches"]

_log = logging.getLogger("arcp_client.mcp")


_MOST_LEFT = 1024
"""More than a client keeps handles of jobs that it no longer follows."""


class _Watch:
    def __init__(self) -> None:
        self.users = 0
        self.opening = asyncio.Lock()
        self.view: JobView | None = None


class Watches:
    """The jobs of other sessions that calls ask for.

    Args:
        client: the client.
        tasks: owns the tasks that end subscriptions.
    """

    def __init__(self, client: Client, tasks: TaskOwner) -> None:
        self._client = client
        self._tasks = tasks
        self._own: dict[str, _Watch] = {}
        self._leaving: dict[str, asyncio.Task[None]] = {}
        self._left: OrderedDict[str, None] = OrderedDict()

    @asynccontextmanager
    async def job(self, job_id: str) -> AsyncIterator[JobHandle]:
        """A job by its id; it is watched during the block, unless the session knows it.

        Raises:
            JobNotFound, PermissionDenied: the runtime refused the subscription.
            FeatureNotNegotiated: the runtime has no subscriptions.
            ArcpError: the client has ended.
        """
        if (leaving := self._leaving.get(job_id)) is not None:
            await asyncio.wait({leaving})
        known = self._client.job(job_id)
        if known is not None and self._is_followed(known):
            yield known
            return
        watch = self._own.setdefault(job_id, _Watch())
        watch.users += 1
        try:
            async with watch.opening:
                if watch.view is None:
                    watch.view = await self._client.watch(job_id, history=True)
            yield watch.view
        finally:
            watch.users -= 1
            if not watch.users:
                del self._own[job_id]
                if watch.view is not None and watch.view.status not in ENDED:
                    self._left[job_id] = None
                    if len(self._left) > _MOST_LEFT:
                        self._left.popitem(last=False)
                    task = self._tasks.spawn(self._leave(watch.view), name="unsubscribe")
                    self._leaving[job_id] = task
                    task.add_done_callback(lambda _: self._leaving.pop(job_id, None))

    def _is_followed(self, job: JobHandle) -> bool:
        """Whether the outcome of a job comes without a watch of ours."""
        if isinstance(job, Job) or job.status in ENDED:
            return True
        # The client keeps the handle of a job for a while that is no longer watched.
        ours = job.id in self._own or job.id in self._left
        return isinstance(job, JobView) and not ours

    async def _leave(self, view: JobView) -> None:
        try:
            await view.unsubscribe()
        except ArcpError as error:
            fields = log_fields(job=view.id)
            _log.debug("job %s stays subscribed: %s", view.id, error, extra=fields)
