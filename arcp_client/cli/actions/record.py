"""Records jobs to a transcript until they end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from arcp_client import (
    ArcpError,
    Client,
    JobHandle,
    JobView,
    events,
)
from arcp_client.cli.actions.exact_outcome import exact_error
from arcp_client.cli.actions.jobs import list_jobs
from arcp_client.cli.actions.transcript_file import begin, check, writing
from arcp_client.cli.connection import Place, connected
from arcp_client.cli.errors import command_error, loses_events
from arcp_client.cli.exit_codes import CommandError, Exit
from arcp_client.cli.interrupts import Interrupts, beside, execute
from arcp_client.cli.view import terminal
from arcp_client.cli.view.render import count
from arcp_client.errors import JobNotFound, RequestTimeout
from arcp_client.projection import ENDED
from arcp_client.transcripts import OutcomeLine, Recording

__all__ = ["record"]

LOOK_EVERY = 1.0
"""Seconds between two listings of the jobs."""
_MOST = 1024
"""Maximum number of jobs in one recording."""


def record(where: Place, jobs: list[str], path: Path, *, everything: bool, force: bool) -> Exit:
    """Record jobs until they have ended, or with ``everything`` all jobs until a signal."""
    if everything == bool(jobs):
        raise CommandError(Exit.USAGE, "name the jobs to record, or give --all", "see --help")
    check(path, force=force)

    async def body(interrupts: Interrupts) -> Exit:
        async with connected(where, interrupts) as client:
            return await _Session(client, where, path, force=force).record(
                jobs, interrupts, everything=everything
            )

    return execute(body)


class _Session:
    """Follows jobs of one session, and writes their events.

    Args:
        client: the connected client.
        where: the runtime of the client, and the token to mask.
        path: the transcript.
        force: whether it may replace a file.
    """

    def __init__(self, client: Client, where: Place, path: Path, *, force: bool) -> None:
        self._client = client
        self._where = where
        self._path = path
        self._force = force
        self._endless = False
        self._recording: Recording | None = None
        self._stream = client.events()  # opened before the first job is watched
        self._open: dict[str, JobHandle] = {}
        self._known: set[str] = set()
        self._events = 0
        self._holes = 0
        self._problems: dict[str, CommandError] = {}

    async def record(
        self, jobs: Iterable[str], interrupts: Interrupts, *, everything: bool
    ) -> Exit:
        """Record until the jobs have ended, or until the first signal."""
        try:
            return await self._record(jobs, interrupts, everything=everything)
        finally:
            if self._recording is not None:
                with writing(self._path):
                    self._recording.close()

    async def _record(
        self, jobs: Iterable[str], interrupts: Interrupts, *, everything: bool
    ) -> Exit:
        wanted = list(dict.fromkeys(jobs))
        stopped = True
        async with interrupts.stop():
            views = [await self._client.watch(job_id, history=True) for job_id in wanted]
            self._recording = begin(
                self._path, self._client.session, self._where, force=self._force
            )
            async with contextlib.AsyncExitStack() as stack:
                for view in views:
                    await self._adopt(view, stack)
                if everything:
                    await stack.enter_async_context(
                        beside(self._ending(partial(self._look, stack)))
                    )
                self._endless = everything
                await self._write()
            stopped = False
        return self._end(wanted, stopped=stopped, everything=everything)

    async def _ending(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a task beside the recording, which ends if the task fails."""
        try:
            await work()
        except (ArcpError, CommandError):
            await self._stream.aclose()
            raise

    async def _adopt(
        self, view: JobView, stack: contextlib.AsyncExitStack, parent: str | None = None
    ) -> None:
        assert self._recording is not None
        self._known.add(view.id)
        self._open[view.id] = view
        with writing(self._path):
            self._recording.began(view, parent_job_id=parent)
        to = "" if str(self._path) == "-" else f" to {self._path}"
        terminal.tell(terminal.err(), f"recording job {view.id} · {view.agent}{to}", "dim")
        await stack.enter_async_context(beside(self._ending(partial(self._detect_loss, view))))

    async def _look(self, stack: contextlib.AsyncExitStack) -> None:
        """Find running and new jobs."""
        old: set[str] | None = None
        while True:
            with contextlib.suppress(RequestTimeout):  # retried in the next round
                found = await list_jobs(self._client)
                if old is None:  # jobs that ended before are not recorded
                    old = {job.job_id for job in found if job.status in ENDED}
                for job in found:
                    if job.job_id in old | self._known or len(self._open) >= _MOST:
                        continue
                    # the job ended and was removed in the meantime
                    with contextlib.suppress(JobNotFound):
                        view = await self._client.watch(job.job_id, history=True)
                        await self._adopt(view, stack, job.parent_job_id)
            await asyncio.sleep(LOOK_EVERY)

    async def _detect_loss(self, view: JobView) -> None:
        """Detect that the end of a job will never arrive."""
        try:
            async for event in view.events(events.Completed, events.Failed):
                if event.terminal:
                    return
        except ArcpError as error:
            await asyncio.sleep(0)  # earlier events are read first
            self._over(view.id, error)
            await self._leave_if_done()

    async def _write(self) -> None:
        assert self._recording is not None
        await self._leave_if_done()
        async for event in self._stream:
            if event.job_id is not None and event.job_id not in self._known:
                continue  # a job of this session that was not requested, such as a child
            self._events += 1
            self._holes += isinstance(event, events.Gap) and loses_events(event)
            with writing(self._path):
                self._recording.event(event)
            if event.terminal and event.job_id in self._open:
                await self._terminal(self._open[event.job_id], event)
                await self._leave_if_done()

    async def _terminal(self, view: JobHandle, event: events.Event) -> None:
        error: ArcpError | None = None
        if isinstance(event, events.Failed):
            try:
                await view.result()
            except ArcpError as failed:
                error = exact_error(failed, event)
        self._over(view.id, error)

    def _over(self, job_id: str, error: ArcpError | None) -> None:
        view = self._open.pop(job_id, None)
        if view is None:
            return
        assert self._recording is not None
        if error is not None:
            self._problems[job_id] = command_error(error)
        with writing(self._path):
            self._recording.ended(view, error)

    async def _leave_if_done(self) -> None:
        if not self._open and not self._endless:
            await self._stream.aclose()

    def _end(self, wanted: list[str], *, stopped: bool, everything: bool) -> Exit:
        if self._recording is None:
            raise CommandError(Exit.INTERRUPTED, "interrupted before anything was recorded")
        with writing(self._path):
            for view in self._open.values():
                self._recording.write(OutcomeLine(job_id=view.id, status=view.status))
            self._recording.end("interrupted" if stopped and not everything else "complete")
        told = f"{count(self._events, 'event')} of {count(len(self._known), 'job')}"
        terminal.tell(terminal.err(), f"recorded {told}", "dim")
        if stopped and not everything:
            raise CommandError(
                Exit.INTERRUPTED,
                "stopped recording before the jobs had ended",
                "the jobs keep running; the recording so far can be replayed",
            )
        for job_id in wanted:
            if job_id in self._problems:
                raise self._problems[job_id]
        if self._holes:
            raise CommandError(
                Exit.GAP,
                "events are missing in the recording",
                "its gaps say where",
            )
        return Exit.SUCCESS
