"""Writes jobs to a transcript file, for `record` and for `run --record`."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from arcp_client import ArcpError, LinkState, Result, SessionInfo, events, transcripts
from arcp_client.cli.connection import Place
from arcp_client.cli.exit_codes import CommandError, Exit
from arcp_client.cli.view.job_tree import JobTree
from arcp_client.cli.view.report import JobReport
from arcp_client.projection import JobProjection
from arcp_client.transcripts import JobLine, Recording, Scrubber, Writer, outcome

__all__ = ["RecordingReport", "begin", "check", "writing"]


def check(path: Path, *, force: bool) -> None:
    """Check in advance whether the transcript can be written.

    Raises:
        CommandError: the file exists, or its directory does not.
    """
    if str(path) == "-":
        return
    if path.exists() and not path.is_file():
        raise CommandError(Exit.USAGE, f"{path} is not a regular file", "- writes to stdout")
    if not force and path.exists():
        raise CommandError(
            Exit.USAGE, f"{path} already exists", "--force replaces it, or name another file"
        )
    if not path.parent.is_dir():
        raise CommandError(Exit.USAGE, f"{path} cannot be written: {path.parent} does not exist")


def begin(path: Path, session: SessionInfo, where: Place, *, force: bool = False) -> Recording:
    """Begin a transcript; ``-`` is stdout.

    Raises:
        CommandError: the file cannot be made.
    """
    secrets = [] if where.token is None else [where.token]
    with writing(path):
        writer = Writer(
            sys.stdout.buffer if str(path) == "-" else path,
            transcripts.header(session),
            scrubber=Scrubber(secrets),
            overwrite=force,
        )
    return Recording(writer)


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Convert errors of a file to command errors."""
    try:
        yield
    except FileExistsError:
        check(path, force=False)  # created since the check
        raise
    except BrokenPipeError:
        raise
    except OSError as error:
        if isinstance(error, ArcpError):
            raise
        raise CommandError(
            Exit.USAGE,
            f"{path} cannot be written: {error.strerror or error}",
            "the recording so far can be replayed",
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


class RecordingReport:
    """A report that also records the job and its children.

    Args:
        report: the report for the user.
        recording: the recording to write.
        path: the name of the file in errors.
    """

    def __init__(self, report: JobReport, recording: Recording, path: Path) -> None:
        self._report = report
        self._recording = recording
        self._path = path
        self._tree: JobTree | None = None
        self._known: set[str] = set()

    @property
    def asks(self) -> bool:
        """Pass on."""
        return self._report.asks

    def began(self, tree: JobTree) -> None:
        """Record the job."""
        self._tree = tree
        self._known.add(tree.root.job_id)
        with writing(self._path):
            self._recording.write(_line(tree.root))
        self._report.began(tree)

    def event(self, event: events.Event) -> None:
        """Record an event, before it is shown."""
        self._write(event)
        self._report.event(event)

    def skip(self, left_out: Sequence[events.Event]) -> None:
        """Record events that are not shown."""
        for event in left_out:
            self._write(event)
        self._report.skip(left_out)

    def skipped(self, count: int) -> None:
        """Pass on."""
        self._report.skipped(count)

    def _write(self, event: events.Event) -> None:
        tree = self._tree
        assert tree is not None
        if not event.size and not isinstance(event, events.Gap):
            return  # it was looked up, and is no event of the stream
        with writing(self._path):
            if event.job_id is not None and event.job_id not in self._known:
                self._known.add(event.job_id)
                child = tree.of(event)
                self._recording.write(_line(child, tree.root.job_id))
            self._recording.event(event)

    def link(self, state: LinkState) -> None:
        """Pass the change of the link on, without recording it."""
        self._report.link(state)

    def flush(self) -> None:
        """Pass the call on. Lines of the recording are written at once."""
        self._report.flush()

    async def refresh(self) -> None:
        """Pass on."""
        await self._report.refresh()

    def quiet(self) -> AbstractContextManager[None]:
        """Pass on."""
        return self._report.quiet()

    def close(self) -> None:
        """Pass the call on. The outcome is recorded later."""
        self._report.close()

    def finish(self) -> None:
        """Close the file, complete or not."""
        with writing(self._path):
            self._recording.close()

    def succeeded(self, result: Result | None, saved: str | None) -> None:
        """Record the outcome and the end."""
        self._end("success", None, "complete")
        self._report.succeeded(result, saved)

    def failed(self, problem: CommandError, error: Exception | None) -> None:
        """Record the outcome and the end."""
        interrupted = problem.code is Exit.INTERRUPTED
        self._end(None, error, "interrupted" if interrupted else "complete")
        self._report.failed(problem, error)

    def _end(self, status: str | None, error: Exception | None, reason: str) -> None:
        with writing(self._path):
            for job in reversed(list(self._tree or ())):
                own = self._tree is not None and job is self._tree.root
                told = outcome(
                    job.job_id,
                    (status if own else None) or job.status,
                    0.0,
                    error=error if own else None,
                )
                self._recording.write(told)
            self._recording.end(reason)
