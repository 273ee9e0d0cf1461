"""The command ``record``, and what ``run --record`` adds to a report: jobs in, a transcript out."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable, Coroutine, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from arcp_client import (
    ArcpError,
    Client,
    JobHandle,
    JobView,
    LinkState,
    Result,
    SessionInfo,
    events,
    transcripts,
)
from arcp_client.cli.actions.jobs import found_of
from arcp_client.cli.connection import Interrupts, Place, beside, connected, execute
from arcp_client.cli.errors import complaint, is_hole
from arcp_client.cli.exit_codes import Complaint, Exit
from arcp_client.cli.view import terminal
from arcp_client.cli.view.job_tree import Family
from arcp_client.cli.view.render import count
from arcp_client.cli.view.report import Report
from arcp_client.errors import JobNotFound, RequestTimeout
from arcp_client.projection import ENDED, JobProjection
from arcp_client.transcripts import JobLine, OutcomeLine, Recording, Scrubber, Writer, outcome

__all__ = ["Recorded", "begin", "check", "record"]

_LOOK = 1.0
"""Seconds between two looks at which jobs there are."""
_MOST = 1024
"""Jobs that one recording follows at most."""


def check(path: Path, *, force: bool) -> None:
    """Refuse at once what would be refused later.

    Raises:
        Complaint: the file is there, or its directory is not.
    """
    if str(path) == "-":
        return
    if path.exists() and not path.is_file():
        raise Complaint(Exit.USAGE, f"{path} is no file to be replaced", "- writes to stdout")
    if not force and path.exists():
        raise Complaint(
            Exit.USAGE, f"{path} is there already", "--force replaces it, or name another file"
        )
    if not path.parent.is_dir():
        raise Complaint(Exit.USAGE, f"{path} cannot be written: there is no {path.parent}")


def begin(path: Path, session: SessionInfo, where: Place, *, force: bool = False) -> Recording:
    """Begin a transcript; ``-`` is stdout.

    Raises:
        Complaint: the file cannot be made.
    """
    secrets = [] if where.token is None else [where.token]
    with _written(path):
        writer = Writer(
            sys.stdout.buffer if str(path) == "-" else path,
            transcripts.header(session),
            scrubber=Scrubber(secrets),
            overwrite=force,
        )
    return Recording(writer)


@contextlib.contextmanager
def _written(path: Path) -> Iterator[None]:
    """Errors of a file as a person needs them."""
    try:
        yield
    except FileExistsError:
        check(path, force=False)  # it was not there a moment ago
        raise
    except BrokenPipeError:
        raise
    except OSError as error:
        if isinstance(error, ArcpError):
            raise
        raise Complaint(
            Exit.USAGE,
            f"{path} cannot be written: {error.strerror or error}",
            "what was recorded so far can be replayed",
        ) from None


def _line(job: JobProjection, parent: str | None = None) -> JobLine:
    return JobLine(
        job_id=job.job_id,
        agent=job.agent,
        status=job.status,
        lease={name: list(job.lease[name]) for name in job.lease.namespaces()},
        expires_at=job.expires_at,
        parent_job_id=parent,
    )


class Recorded:
    """A report whose job is recorded, too, with the jobs that it delegates to.

    Args:
        report: what people see.
        recording: where it is written.
        path: what errors call it.
    """

    def __init__(self, report: Report, recording: Recording, path: Path) -> None:
        self._report = report
        self._recording = recording
        self._path = path
        self._family: Family | None = None
        self._known: set[str] = set()

    def began(self, family: Family) -> None:
        """The job's line."""
        self._family = family
        self._known.add(family.root.job_id)
        with _written(self._path):
            self._recording.write(_line(family.root))
        self._report.began(family)

    def event(self, event: events.Event) -> None:
        """The event's line, before it is shown."""
        family = self._family
        assert family is not None
        with _written(self._path):
            if event.job_id is not None and event.job_id not in self._known:
                self._known.add(event.job_id)
                child = family.of(event)
                self._recording.write(_line(child, family.root.job_id))
            self._recording.event(event)
        self._report.event(event)

    def link(self, state: LinkState) -> None:
        """Not recorded."""
        self._report.link(state)

    def flush(self) -> None:
        """Every line is written at once."""
        self._report.flush()

    async def refresh(self) -> None:
        """As the report."""
        await self._report.refresh()

    def close(self) -> None:
        """As the report: the outcome is still to come."""
        self._report.close()

    def finish(self) -> None:
        """Close the file, whatever was written of it."""
        with _written(self._path):
            self._recording.close()

    def succeeded(self, result: Result | None, saved: str | None) -> None:
        """The outcome, and the end."""
        self._end("success", None, "complete")
        self._report.succeeded(result, saved)

    def failed(self, problem: Complaint, error: Exception | None) -> None:
        """The outcome, and the end."""
        interrupted = problem.code is Exit.INTERRUPTED
        self._end(None, error, "interrupted" if interrupted else "complete")
        self._report.failed(problem, error)

    def _end(self, status: str | None, error: Exception | None, reason: str) -> None:
        with _written(self._path):
            for job in reversed(list(self._family or ())):
                own = self._family is not None and job is self._family.root
                told = outcome(
                    job.job_id,
                    (status if own else None) or job.status,
                    0.0,
                    error=error if own else None,
                )
                self._recording.write(told)
            self._recording.end(reason)


# --------------------------------------------------------------------------- the command


def record(where: Place, jobs: list[str], path: Path, *, everything: bool, force: bool) -> Exit:
    """Record jobs until they have ended, or with ``everything`` all jobs until it is stopped."""
    if everything == bool(jobs):
        raise Complaint(Exit.USAGE, "name the jobs to record, or give --all", "see --help")
    check(path, force=force)

    async def body(interrupts: Interrupts) -> Exit:
        async with connected(where, interrupts) as client:
            return await _Session(client, where, path, force=force).record(
                jobs, interrupts, everything=everything
            )

    return execute(body)


class _Session:
    """Follows jobs of one session, and writes what comes.

    Args:
        client: connected.
        where: its runtime, and the token that is masked.
        path: the file.
        force: whether it may replace one.
    """

    def __init__(self, client: Client, where: Place, path: Path, *, force: bool) -> None:
        self._client = client
        self._where = where
        self._path = path
        self._force = force
        self._endless = False
        self._recording: Recording | None = None
        self._stream = client.events()  # from before the first job is asked for
        self._open: dict[str, JobHandle] = {}
        self._known: set[str] = set()
        self._events = 0
        self._holes = 0
        self._problems: dict[str, Complaint] = {}

    async def record(
        self, jobs: Iterable[str], interrupts: Interrupts, *, everything: bool
    ) -> Exit:
        """Until the jobs have ended, or the first signal."""
        try:
            return await self._record(jobs, interrupts, everything=everything)
        finally:
            if self._recording is not None:
                with _written(self._path):
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
        """Do something beside the recording, which ends if that fails."""
        try:
            await work()
        except (ArcpError, Complaint):
            await self._stream.aclose()
            raise

    async def _adopt(
        self, view: JobView, stack: contextlib.AsyncExitStack, parent: str | None = None
    ) -> None:
        assert self._recording is not None
        self._known.add(view.id)
        self._open[view.id] = view
        with _written(self._path):
            self._recording.began(view, parent_job_id=parent)
        to = "" if str(self._path) == "-" else f" to {self._path}"
        terminal.tell(terminal.err(), f"recording job {view.id} · {view.agent}{to}", "dim")
        await stack.enter_async_context(beside(self._ending(partial(self._mind, view))))

    async def _look(self, stack: contextlib.AsyncExitStack) -> None:
        """Find the jobs that run, and those that begin."""
        old: set[str] | None = None
        while True:
            with contextlib.suppress(RequestTimeout):  # the next time, then
                found = await found_of(self._client)
                if old is None:  # what was over before is not what this session sees
                    old = {job.job_id for job in found if job.status in ENDED}
                for job in found:
                    if job.job_id in old | self._known or len(self._open) >= _MOST:
                        continue
                    with contextlib.suppress(JobNotFound):  # it ended and was forgotten meanwhile
                        view = await self._client.watch(job.job_id, history=True)
                        await self._adopt(view, stack, job.parent_job_id)
            await asyncio.sleep(_LOOK)

    async def _mind(self, view: JobView) -> None:
        """Notice if a job's end will never come by its events."""
        try:
            async for event in view.events(events.Completed, events.Failed):
                if event.terminal:
                    return
        except ArcpError as error:
            await asyncio.sleep(0)  # what came before is read first
            self._over(view.id, error)
            await self._leave_if_done()

    async def _write(self) -> None:
        assert self._recording is not None
        await self._leave_if_done()
        async for event in self._stream:
            if event.job_id is not None and event.job_id not in self._known:
                continue  # an own job of this session's, which nobody asked for
            self._events += 1
            self._holes += isinstance(event, events.Gap) and is_hole(event)
            with _written(self._path):
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
                error = failed
        self._over(view.id, error)

    def _over(self, job_id: str, error: ArcpError | None) -> None:
        view = self._open.pop(job_id, None)
        if view is None:
            return
        assert self._recording is not None
        if error is not None:
            self._problems[job_id] = complaint(error)
        with _written(self._path):
            self._recording.ended(view, error)

    async def _leave_if_done(self) -> None:
        if not self._open and not self._endless:
            await self._stream.aclose()

    def _end(self, wanted: list[str], *, stopped: bool, everything: bool) -> Exit:
        if self._recording is None:
            raise Complaint(Exit.INTERRUPTED, "interrupted before anything was recorded")
        with _written(self._path):
            for view in self._open.values():
                self._recording.write(OutcomeLine(job_id=view.id, status=view.status))
            self._recording.end("interrupted" if stopped and not everything else "complete")
        told = f"{count(self._events, 'event')} of {count(len(self._known), 'job')}"
        terminal.tell(terminal.err(), f"recorded {told}", "dim")
        if stopped and not everything:
            raise Complaint(
                Exit.INTERRUPTED,
                "stopped recording before the jobs had ended",
                "they run on; what was recorded can be replayed",
            )
        for job_id in wanted:
            if job_id in self._problems:
                raise self._problems[job_id]
        if self._holes:
            raise Complaint(
                Exit.GAP,
                "events are missing, and so they are in the recording",
                "it says where: look for gaps",
            )
        return Exit.SUCCESS
