"""Follows a job to its end, and reports its events and outcome.

The module also reads ``--input`` and ``--lease``, the arguments of a submit.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

import msgspec

from arcp_client import ArcpError, Client, Job, JobHandle, JobView, LinkState, Live, events
from arcp_client import _digits as digits
from arcp_client._feeds.batches import batches
from arcp_client._log_fields import log_fields
from arcp_client.cli.actions.answering import Asker, EventAsker
from arcp_client.cli.actions.exact_outcome import exact_error, exact_result
from arcp_client.cli.actions.tail import Tail
from arcp_client.cli.environment import text_of
from arcp_client.cli.errors import command_error, loses_events
from arcp_client.cli.exit_codes import CommandError, Exit
from arcp_client.cli.interrupts import Interrupts, beside
from arcp_client.cli.prompt import can_ask
from arcp_client.cli.view import terminal
from arcp_client.cli.view.job_tree import MOST, JobTree
from arcp_client.cli.view.report import JobReport
from arcp_client.errors import JobError
from arcp_client.projection import JobProjection

__all__ = ["Following", "JobEvents", "read_input", "read_lease", "save_result"]

_log = logging.getLogger("arcp_client.cli")
_PLAIN = frozenset(
    {
        events.Log,
        events.Metric,
        events.Progress,
        events.ResultChunk,
        events.Status,
        events.Thought,
        events.ToolCall,
        events.ToolResult,
    }
)
"""Events that are only shown."""
_SECOND_THOUGHT = 2.0
_CANCELLING = 10.0


class JobEvents(Protocol):
    """An event iterator that can be closed."""

    def __aiter__(self) -> AsyncIterator[events.Event]: ...

    async def aclose(self) -> None:
        """Stop the iteration. A waiting call ends without an event."""


class Following:
    """Follows one job to its end.

    Args:
        client: the client of the job.
        stream: the iterator over the events of the session. It must be made before the submit,
            because a restarted client gets earlier events at once. An event is requested only after
            the previous one was written, so that events which were not written are sent to the next
            process again.
        interrupts: the signals that stop it.
        report: shows events and outcome.
        back: the command line with which the user can follow the job again.
        save: the file for the result.
        tail: how many events of the history to show; ``None`` for all.
        over: called when the job has ended and its outcome was delivered.
        again: returns the job that begins a failed one again, given its id, if there will be one.
    """

    def __init__(
        self,
        client: Client,
        stream: JobEvents,
        interrupts: Interrupts,
        report: JobReport,
        *,
        back: str,
        save: Path | None = None,
        tail: int | None = None,
        over: Callable[[], None] = lambda: None,
        again: Callable[[str], Awaitable[Job | None]] | None = None,
    ) -> None:
        self._client = client
        self._stream = stream
        self._interrupts = interrupts
        self._report = report
        self._back = back
        self._save = save
        self._tail = Tail(report, tail)
        self._over = over
        self._again = again
        self._children: asyncio.Queue[str] = asyncio.Queue(MOST)
        self._holes: list[events.Gap] = []
        self._lost: ArcpError | None = None
        self._end: events.Event | None = None
        asks = can_ask() and report.asks
        self._questions = EventAsker(Asker(client, terminal.err(), report.quiet) if asks else None)
        self._unsure = asyncio.Event()

    async def follow(self, job: JobHandle, *, history: bool, since: datetime | None = None) -> Exit:
        """Report a job up to its end; return the exit code for its outcome.

        Args:
            job: the job.
            history: whether the job's first event is still expected.
            since: when the job was accepted, if that was earlier.
        """
        tree = JobTree(JobProjection.of(job, history=history), self._described, since=since)
        if history and isinstance(job, JobView):
            self._tail.ends_with(job.history_last)
        report = self._report
        report.began(tree)
        self._unsure.set()
        states = self._client.states.subscribe(on_next=self._linked)
        try:
            async with self._interrupts.stop():
                async with (
                    beside(report.refresh()),
                    beside(self._adopt()),
                    beside(self._ask()),
                    beside(self._look_up(job)),
                ):
                    job_id: str | None = job.id
                    while job_id is not None:
                        async with beside(self._detect_loss(job)):
                            await self._events(job_id, tree)
                        self._tail.release()
                        job_id = None
                        following = await self._following()
                        if following is not None:
                            job, job_id = following, following.id
                            tree = JobTree(JobProjection.of(job, history=True), self._described)
                            report.close()
                            report.began(tree)
                await self._deliver(job)
                if self._holes:
                    raise _holed(self._holes)
                return Exit.SUCCESS
        except ArcpError as error:
            problem = command_error(error)
            if problem.code is Exit.CONNECTION:
                problem.remedy = f"the job may still run: {self._back} {job.id}"
            self._tail.release()
            report.close()
            report.failed(problem, exact_error(error, self._end))
            if isinstance(error, JobError):
                self._over()
            raise problem from error
        except BrokenPipeError:
            terminal.tell(terminal.err(), f"the reader of stdout has gone; job {job.id} continues")
            raise
        finally:
            states.dispose()
            report.close()
        return await self._interrupted(job)

    async def _following(self) -> Job | None:
        """Return the job that begins the one that has ended again, if there will be one."""
        end = self._end
        if self._again is None or not isinstance(end, events.Failed) or end.job_id is None:
            return None
        return await self._again(end.job_id) if end.retryable else None

    async def _events(self, job_id: str, tree: JobTree) -> None:
        async with aclosing(batches(self._stream, self._tail.holds)) as read:
            async for batch in read:
                plain = len(batch) > 1 and _PLAIN.issuperset(map(type, batch))
                if plain and not _log.isEnabledFor(logging.DEBUG):
                    self._tail.extend(batch)
                elif any(self._event(event, job_id, tree) for event in batch):
                    return
        if self._lost is not None:
            raise self._lost

    def _event(self, event: events.Event, job_id: str, tree: JobTree) -> bool:
        """Take an event; returns whether it is the end of the job."""
        if isinstance(event, events.Gap) and loses_events(event) and tree.is_own(event):
            self._holes.append(event)
            self._unsure.set()
        elif isinstance(event, events.Delegate) and event.child_job_id:
            with contextlib.suppress(asyncio.QueueFull):  # too many children to show
                self._children.put_nowait(event.child_job_id)
        if _log.isEnabledFor(logging.DEBUG):
            _log.debug(
                "event %s of job %s: %s",
                event.seq,
                event.job_id,
                event.kind,
                extra=log_fields(session=event.session_id, job=event.job_id, seq=event.seq),
            )
        self._take(event)
        if not event.terminal or event.job_id != job_id:
            return False
        self._end = event
        return True

    def _take(self, event: events.Event, *, ask: bool = True) -> None:
        """Show an event; ask its question, if it has one."""
        self._tail.event(event)
        self._questions.seen(event, ask=ask)

    def _linked(self, state: LinkState) -> None:
        if isinstance(state, Live):
            self._unsure.set()

    async def _ask(self) -> None:
        """Ask the questions, once their lines are shown."""
        await self._tail.released.wait()
        await self._questions.run()

    async def _look_up(self, job: JobHandle) -> None:
        """Show and ask the open questions that no event brings.

        An earlier process may have shown a question's event, the event may be older than the first
        one of this process, or it may be in a gap. So the runtime is asked for its open questions
        at the beginning, after each reconnect and after each gap; first the events that are
        delivered again are shown.
        """

        def follows(job_id: str) -> bool:
            return job_id in (job.id, *job.children) or self._client.job(job_id) is not None

        while True:
            await self._unsure.wait()
            self._unsure.clear()
            await self._tail.settle()
            try:
                missed = await self._questions.unseen(self._client, follows)
            except ArcpError as error:  # the next link tries again
                _log.debug("the open questions were not listed: %s", error)
                continue
            for event, ask in missed:
                self._take(event, ask=ask)

    def _described(self, job_id: str) -> JobProjection:
        known = self._client.job(job_id)
        return JobProjection(job_id) if known is None else JobProjection.of(known)

    async def _adopt(self) -> None:
        """Subscribe to the job's children too, if the session does not receive their events."""
        while True:
            child = await self._children.get()
            if self._client.job(child) is None:
                # then only the parent's events mention the child
                with contextlib.suppress(ArcpError):
                    await self._client.watch(child, history=True)

    async def _detect_loss(self, job: JobHandle) -> None:
        """End the stream if the job's end will never arrive in it."""
        try:
            await _until_over(job)
        except ArcpError as error:
            self._lost = error
            await asyncio.sleep(0)  # earlier events are read first
            await self._stream.aclose()

    async def _deliver(self, job: JobHandle) -> None:
        """Deliver the result, or the error that the job failed with."""
        self._report.flush()
        if self._save is not None:
            await save_result(job, self._save)
            self._report.succeeded(None, str(self._save))
        else:
            self._report.succeeded(exact_result(await job.result(), self._end), None)
        self._over()

    async def _interrupted(self, job: JobHandle) -> Exit:
        """Detach on the first Ctrl-C; cancel the job on a second one shortly after."""
        console, report, interrupts = terminal.err(), self._report, self._interrupts
        back = f"{self._back} {job.id}"
        if not isinstance(job, Job):
            report.failed(CommandError(Exit.INTERRUPTED, "no longer watching"), None)
            terminal.tell(console, f"The job is left alone. Come back with:  {back}", "bold")
            return Exit.INTERRUPTED
        terminal.tell(console, f"Detached; the job continues. Come back with:  {back}", "bold")
        terminal.tell(console, "Press Ctrl-C again now to cancel the job.", "dim")
        async with interrupts.stop(_SECOND_THOUGHT):
            await _until_over(job)
        if interrupts.count < 2:
            report.failed(CommandError(Exit.INTERRUPTED, "detached"), None)
            return Exit.INTERRUPTED
        terminal.tell(console, "Asking the runtime to cancel the job …", "bold")
        try:
            async with interrupts.stop(_CANCELLING):
                await job.cancel("user.interrupt")
                await _until_over(job)
        except ArcpError as error:
            terminal.tell(console, f"It was not cancelled: {error}", "yellow")
        if job.status == "cancelled":
            terminal.tell(console, "The job is cancelled.", "bold")
            self._over()
        else:
            terminal.tell(console, f"The job is {job.status}. See:  {back}", "bold")
        report.failed(CommandError(Exit.INTERRUPTED, "interrupted"), None)
        return Exit.INTERRUPTED


async def save_result(job: JobHandle, path: Path) -> int:
    """Write a job's result to a file; return its size in bytes."""
    try:
        return await job.save(path)
    except OSError as error:
        if isinstance(error, ArcpError):
            raise
        raise CommandError(Exit.USAGE, f"{path} cannot be written: {error.strerror}") from None


def _holed(holes: list[events.Gap]) -> CommandError:
    first = holes[0]
    what = f"{first.first}–{'?' if first.last is None else first.last} ({first.reason})"
    more = f" and {len(holes) - 1} more" if len(holes) > 1 else ""
    return CommandError(
        Exit.GAP,
        f"the job succeeded, but events are missing: {what}{more}",
        "its result is complete; its events are not",
    )


async def _until_over(job: JobHandle) -> None:
    async for event in job.events(events.Completed, events.Failed):
        if event.terminal:  # gaps are reported in any case
            return


def read_input(text: str) -> msgspec.Raw:
    """Read the JSON of ``--input``: inline, from a file with ``@``, or from stdin with ``-``.

    Numbers keep their digits (W1). If an object has equal keys, the last one is kept.
    """
    where = "--input"
    try:
        if text == "-":
            where = "stdin"
            text = text_of(_stdin(), where)
        elif text.startswith("@"):
            where = text[1:]
            text = text_of(Path(where).read_bytes(), where)
        json.loads(text, parse_constant=_no_constant)
        return msgspec.Raw(digits.dumps(digits.loads(text), ascii=True).encode())
    except OSError as error:
        raise CommandError(Exit.USAGE, f"{where} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise CommandError(
            Exit.USAGE,
            f"{where} is not JSON: {error}",
            """a text is written --input '"like this"', a file is named --input @file.json""",
        ) from None


def _stdin() -> bytes:
    if sys.stdin is None:  # stdin was closed at the start of the command
        raise CommandError(Exit.USAGE, "stdin is closed, and --input - reads it")
    buffer = getattr(sys.stdin, "buffer", None)
    return buffer.read() if buffer is not None else sys.stdin.read().encode()


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is not a JSON value")


def read_lease(grants: list[str]) -> dict[str, list[str]] | None:
    """Parse ``--lease``; ``None`` leaves the lease to the runtime."""
    if not grants:
        return None
    lease: dict[str, list[str]] = {}
    for grant in grants:
        name, equals, pattern = grant.partition("=")
        if not name or not equals or not pattern:
            raise CommandError(
                Exit.USAGE, f"--lease {grant!r} is not NAME=PATTERN", "such as fs.read=/src/**"
            )
        lease.setdefault(name, []).append(pattern)
    return lease
