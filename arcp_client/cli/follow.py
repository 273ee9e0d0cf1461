"""The commands ``run`` and ``watch``: a job's events as they come, then its outcome."""

from __future__ import annotations

import json
import secrets
import sys
from pathlib import Path
from typing import Any

from arcp_client import ArcpError, Client, Job, JobHandle, events
from arcp_client.cli import ledger, terminal
from arcp_client.cli.exits import Complaint, Exit
from arcp_client.cli.output import Report, reporter
from arcp_client.cli.running import Interrupts, Place, connected, execute
from arcp_client.cli.verdicts import complaint, is_hole

__all__ = ["follow", "run", "save_result", "watch"]

_SECOND_THOUGHT = 2.0
_CANCELLING = 10.0


def run(
    where: Place,
    agent: str,
    input: str,
    *,
    lease: list[str],
    max_runtime: float | None,
    key: str | None,
    save: Path | None,
    detach: bool,
) -> Exit:
    """Submit and follow."""
    submit: dict[str, Any] = {
        "agent": agent,
        "input": read_input(input),
        "lease": read_lease(lease),
        "max_runtime": max_runtime,
        "idempotency_key": key or f"cli-{secrets.token_hex(12)}",
    }

    async def body(interrupts: Interrupts) -> Exit:
        async with connected(where, interrupts) as client:
            job = await _submitted(client, submit, interrupts)
            ledger.remember(job.id, submit)
            if detach:
                print(job.id, flush=True)
                return Exit.SUCCESS
            return await follow(job, interrupts, reporter(where.output), save=save)

    return execute(body)


def watch(where: Place, job_id: str, *, history: bool) -> Exit:
    """Follow a job of any session."""

    async def body(interrupts: Interrupts) -> Exit:
        async with connected(where, interrupts) as client:
            view = await client.watch(job_id, history=history)
            return await follow(view, interrupts, reporter(where.output), save=None)

    return execute(body)


async def _submitted(client: Client, submit: dict[str, Any], interrupts: Interrupts) -> Job:
    try:
        async with interrupts.stop():
            return await client.submit(**submit)
    except ValueError as error:
        raise Complaint(Exit.USAGE, str(error)) from None
    raise Complaint(
        Exit.INTERRUPTED,
        "interrupted before the runtime had accepted the job; it may run all the same",
        "`arcp-client jobs` shows whether it does",
    )


async def follow(
    job: JobHandle, interrupts: Interrupts, report: Report, *, save: Path | None
) -> Exit:
    """Report a job up to its end; the exit code that its end deserves."""
    holes: list[events.Gap] = []
    report.began(job)
    try:
        async with interrupts.stop():
            async for event in job:
                if isinstance(event, events.Gap) and is_hole(event):
                    holes.append(event)
                report.event(event)
            if save is not None:
                await save_result(job, save)
            result = await job.result() if save is None else None
            ledger.forget(job.id)
            report.succeeded(job, result, None if save is None else str(save))
            if holes:
                raise _holed(holes)
            return Exit.SUCCESS
    except ArcpError as error:
        problem = complaint(error)
        if problem.code is Exit.CONNECTION:
            problem.remedy = f"the job may run on: arcp-client watch {job.id}"
        elif job.status in ("error", "cancelled", "timed_out"):
            ledger.forget(job.id)
        report.failed(job, problem, error)
        raise problem from error
    except BrokenPipeError:
        terminal.tell(terminal.err(), f"nobody reads stdout any more; job {job.id} runs on")
        raise
    return await _interrupted(job, interrupts, report)


async def save_result(job: JobHandle, path: Path) -> int:
    """Write a job's result to a file; its bytes."""
    try:
        return await job.save(path)
    except OSError as error:
        if isinstance(error, ArcpError):
            raise
        raise Complaint(Exit.USAGE, f"{path} cannot be written: {error.strerror}") from None


def _holed(holes: list[events.Gap]) -> Complaint:
    first = holes[0]
    what = f"{first.first}–{'?' if first.last is None else first.last} ({first.reason})"
    more = f" and {len(holes) - 1} more" if len(holes) > 1 else ""
    return Complaint(
        Exit.GAP,
        f"the job succeeded, but events are missing: {what}{more}",
        "its result is complete; what happened on the way is not",
    )


async def _interrupted(job: JobHandle, interrupts: Interrupts, report: Report) -> Exit:
    """The first Ctrl-C leaves the job alone; a second one within a moment asks to cancel it."""
    console = terminal.err()
    back = f"arcp-client watch {job.id}"
    if not isinstance(job, Job):
        report.failed(job, Complaint(Exit.INTERRUPTED, "watched no longer"), None)
        terminal.tell(console, f"The job is left alone. Come back with:  {back}", "bold")
        return Exit.INTERRUPTED
    terminal.tell(console, f"Detached; the job runs on. Come back with:  {back}", "bold")
    terminal.tell(console, "Press Ctrl-C again now to cancel the job.", "dim")
    async with interrupts.stop(_SECOND_THOUGHT):
        await _until_over(job)
    if interrupts.count < 2:
        report.failed(job, Complaint(Exit.INTERRUPTED, "detached"), None)
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
        ledger.forget(job.id)
    else:
        terminal.tell(console, f"The job is {job.status}. See:  {back}", "bold")
    report.failed(job, Complaint(Exit.INTERRUPTED, "interrupted"), None)
    return Exit.INTERRUPTED


async def _until_over(job: JobHandle) -> None:
    async for _ in job.events(events.Completed, events.Failed):
        return


def read_input(text: str) -> Any:
    """The JSON that ``--input`` gives, names with ``@``, or leaves to stdin with ``-``."""
    where = "--input"
    try:
        if text == "-":
            where = "stdin"
            text = sys.stdin.read()
        elif text.startswith("@"):
            where = text[1:]
            text = Path(where).read_text(encoding="utf-8")
        return json.loads(text, parse_constant=_no_constant)
    except OSError as error:
        raise Complaint(Exit.USAGE, f"{where} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise Complaint(
            Exit.USAGE,
            f"{where} is not JSON: {error}",
            """a text is written --input '"like this"', a file is named --input @file.json""",
        ) from None


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is no JSON value")


def read_lease(grants: list[str]) -> dict[str, list[str]] | None:
    """What ``--lease`` grants; ``None`` leaves it to the runtime."""
    if not grants:
        return None
    lease: dict[str, list[str]] = {}
    for grant in grants:
        name, equals, pattern = grant.partition("=")
        if not name or not equals or not pattern:
            raise Complaint(
                Exit.USAGE, f"--lease {grant!r} is not NAME=PATTERN", "such as fs.read=/src/**"
            )
        lease.setdefault(name, []).append(pattern)
    return lease
