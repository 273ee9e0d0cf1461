"""Submits a job, or continues a run that was saved, and follows the job to its end."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from arcp_client import Client, Job
from arcp_client.cli.actions import saved_runs
from arcp_client.cli.actions.follow import Following, JobEvents, read_input, read_lease
from arcp_client.cli.actions.job_facts import entry_of
from arcp_client.cli.actions.transcript_file import RecordingReport, begin, check
from arcp_client.cli.connection import Place, connected
from arcp_client.cli.exit_codes import CommandError, Exit
from arcp_client.cli.interrupts import Interrupts, execute
from arcp_client.cli.view import terminal
from arcp_client.cli.view.report import JobReport, reporter
from arcp_client.errors import RequestError, RequestTimeout

__all__ = ["resume", "run"]


def run(
    where: Place,
    agent: str,
    input: str,
    *,
    lease: list[str],
    max_runtime: float | None,
    key: str | None,
    retries: int = 0,
    save: Path | None,
    detach: bool,
    ephemeral: bool,
    profile: str | None,
    record: Path | None = None,
) -> Exit:
    """Submit a job and follow it."""
    if record is not None:
        if detach:
            raise CommandError(Exit.USAGE, "--detach excludes --record", "see `record`")
        if str(record) == "-":
            raise CommandError(
                Exit.USAGE, "stdout is used for the result of a run", "give --record a file"
            )
        check(record, force=False)
    submit: dict[str, Any] = {
        "agent": agent,
        "input": read_input(input),
        "lease": read_lease(lease),
        "max_runtime": max_runtime,
        "idempotency_key": key or f"cli-{secrets.token_hex(12)}",
    }
    if retries:
        if detach:
            raise CommandError(
                Exit.USAGE, "--detach excludes --retries", "this process begins the job again"
            )
        submit["retries"] = retries
    kept: saved_runs.SavedRun | None = None
    if not ephemeral:
        try:
            kept = saved_runs.begin(url=where.url, submit=submit, profile=profile, save=save)
        except OSError as error:
            terminal.tell(
                terminal.err(),
                f"--resume will not find this run: it cannot be saved: {error}",
                "dim",
            )
    return execute(_Running(where, submit, kept, save=save, detach=detach, record=record).go)


def resume(
    place: Callable[[str, str | None], Place], job_id: str | None, *, save: Path | None
) -> Exit:
    """Continue a run where another process left it.

    Args:
        place: makes the `Place` from the URL and the profile of the submit.
        job_id: the job of the run; ``None`` selects the newest unfinished run.
        save: the file for the result; by default that of the submit.
    """
    kept = _chosen(job_id)
    if save is None and kept.save is not None:
        save = Path(kept.save)
    where = place(kept.url, kept.profile)
    return execute(_Running(where, kept.submit, kept, save=save, again=True).go)


class _Running:
    """One ``run``: from the submit, or from the saved state, to the job's end.

    Args:
        where: the runtime.
        submit: the arguments of ``Client.submit``.
        kept: the saved state of the run; ``None`` if it is not saved.
        save: the file for the result.
        detach: whether to exit after the submit.
        again: whether another process has begun the run.
        record: the transcript to write.
    """

    def __init__(
        self,
        where: Place,
        submit: dict[str, Any],
        kept: saved_runs.SavedRun | None,
        *,
        save: Path | None,
        detach: bool = False,
        again: bool = False,
        record: Path | None = None,
    ) -> None:
        self._where = where
        self._submit = submit
        self._kept = kept
        self._save = save
        self._detach = detach
        self._open = again
        self._stream: JobEvents | None = None
        self._record = record
        self._report = reporter(where.output)

    async def go(self, interrupts: Interrupts) -> Exit:
        """Run it; keep the saved run if the job is unfinished."""
        kept = self._kept
        try:
            async with connected(
                self._where,
                interrupts,
                store=kept.store(self._report.flush) if kept is not None else None,
                keep=lambda: kept is not None and self._open,
                tell=self._report.link,
            ) as client:
                return await self._follow(client, interrupts)
        finally:
            if kept is not None and not self._open:
                kept.over()

    async def _follow(self, client: Client, interrupts: Interrupts) -> Exit:
        # Opened first, before any event counts as processed, and kept as long as the client: unread
        # events are replayed to the next process.
        self._stream = stream = client.events()
        job = next(iter(client.open_jobs()), None)
        if self._detach and not client.session.jobs_run_on:
            self._open = False
            raise CommandError(
                Exit.USAGE,
                "this runtime ends the jobs of a session with it, so the job would not run",
                "run it without --detach, and stay until it has ended",
            )
        history, entry = job is None, None
        if job is not None:
            entry = await entry_of(client, job.id)
        else:
            job = await self._submitted(client, interrupts)
            if self._kept is not None:
                self._kept.accepted(job.id)
        if self._detach:
            print(job.id, flush=True)
            return Exit.SUCCESS
        report: JobReport = self._report
        if self._record is not None:
            began = begin(self._record, client.session, self._where)
            report = RecordingReport(report, began, self._record)
        following = Following(
            client,
            stream,
            interrupts,
            report,
            back="arcp-client watch" if self._kept is None else "arcp-client run --resume",
            save=self._save,
            over=self._over,
            again=partial(self._next, client, [job]),
        )
        try:
            since = entry.created_at if entry is not None else None
            return await following.follow(job, history=history, since=since)
        finally:
            if isinstance(report, RecordingReport):
                report.finish()

    async def _next(self, client: Client, known: list[Job], failed: str) -> Job | None:
        """Return the attempt after one that has failed; ``None`` if that was the last.

        Args:
            client: the client.
            known: the job; it is replaced by that of a further submit.
            failed: the id of the attempt that has failed.
        """
        if "retries" not in self._submit:
            return None
        following = await known[0].next_attempt(failed)
        if following is None and known[0].resumed:
            # An earlier process submitted it: the same submit finds its attempts.
            known[0] = job = await client.submit(**self._submit)
            found: str | None = job.attempts[0]
            while found is not None and found != failed:
                found = await job.next_attempt(found)
            following = None if found is None else await job.next_attempt(found)
        handle = None if following is None else client.job(following)
        return handle if isinstance(handle, Job) else None

    def _over(self) -> None:
        self._open = False
        if self._kept is not None:
            self._kept.finished()  # closing may take a while, and may be interrupted

    async def _submitted(self, client: Client, interrupts: Interrupts) -> Job:
        self._open = True
        try:
            async with interrupts.stop():
                return await client.submit(**self._submit)
        except ValueError as error:
            self._open = False
            raise CommandError(Exit.USAGE, str(error)) from None
        except RequestError as refused:
            self._open = isinstance(refused, RequestTimeout)
            raise
        back = "arcp-client jobs" if self._kept is None else "arcp-client run --resume"
        raise CommandError(
            Exit.INTERRUPTED,
            "interrupted before the runtime accepted the job; it may still run",
            f"`{back}` shows whether it does",
        )


def _chosen(job_id: str | None) -> saved_runs.SavedRun:
    """Return the run to continue, locked by this process."""
    known = saved_runs.unfinished()
    wanted = [run for run in known if job_id in (None, run.job_id)]
    if not wanted:
        raise CommandError(
            Exit.NOT_FOUND,
            "no unfinished run" if job_id is None else f"no saved run of job {job_id}",
            "`arcp-client watch JOB` follows any job that you may see",
        )
    run = next((run for run in wanted if run.hold()), None)
    if run is None:
        raise CommandError(
            Exit.USAGE,
            f"another process follows {_named(wanted[0])}",
            "`arcp-client watch JOB` follows it concurrently",
        )
    console = terminal.err()
    terminal.tell(console, f"continuing {_named(run)}", "dim")
    others = [_named(each) for each in known if each is not run]
    if job_id is None and others:
        more = f"; and {len(others) - 3} more" if len(others) > 3 else ""
        terminal.tell(console, f"it is the newest; others are {'; '.join(others[:3])}{more}", "dim")
    return run


def _named(run: saved_runs.SavedRun) -> str:
    began = datetime.fromtimestamp(run.began, UTC).astimezone()
    return f"{run.job_id or 'a job not accepted yet'} ({run.agent}, {began:%m-%d %H:%M})"
