"""Writes a transcript to a file that only its owner can read, one whole line at a time."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from arcp_client import _arguments as check
from arcp_client._scrubbing import Scrubber
from arcp_client.events import Event, Gap
from arcp_client.job import JobHandle
from arcp_client.transcripts.lines import (
    EndLine,
    EventLine,
    Header,
    Line,
    encode,
    entry,
    header,
    job,
    outcome,
)
from arcp_client.transcripts.reading import MAX_LINE

__all__ = ["Recording", "Writer", "write"]


_BY_NAME = Scrubber()


class Writer:
    """Writes lines to a file, each one completely and immediately.

    After a crash, the file has every line for which `write` returned, and at most part of one more,
    which readers ignore. The file is created anew with mode 0600; an earlier file's content and
    mode are not kept. A line that is too long for readers is written as a `Gap`.

    Args:
        target: a path, or a file open for writing bytes, which stays open.
        first: the header; by default one without details of a session.
        scrubber: masks secrets; by default those with usual names. With ``None`` nothing is masked.
        overwrite: replace an existing regular file, but not a device, pipe or directory.

    Raises:
        FileExistsError: the path exists and must not be replaced.
        OSError: the file cannot be created.
        TypeError: an argument has a wrong type.
    """

    def __init__(
        self,
        target: str | os.PathLike[str] | IO[bytes],
        first: Header | None = None,
        *,
        scrubber: Scrubber | None = _BY_NAME,
        overwrite: bool = False,
    ) -> None:
        check.an_instance("first", first, Header, "a Header", none=True)
        check.an_instance("scrubber", scrubber, Scrubber, "a Scrubber", none=True, secret=True)
        check.a_flag("overwrite", overwrite)
        if not hasattr(target, "write"):
            check.a_path("target", target)
        self._scrubber = scrubber
        self._owned = isinstance(target, str | os.PathLike)
        self._whole = 0
        self._closed = False
        if isinstance(target, str | os.PathLike):
            self._file: IO[bytes] = _made(Path(target), overwrite=overwrite)
        else:
            self._file = target
        try:
            self.write(first or header(scrubbed=scrubber is not None))
        except BaseException:
            if self._owned:
                self._file.close()
            raise

    def write(self, line: Line) -> None:
        """Write one line.

        Raises:
            OSError: the line could not be written completely; the written part is removed.
            ValueError: the writer is closed.
        """
        if self._closed:
            raise ValueError("the transcript is closed")
        data = encode(line, self._scrubber)
        if len(data) > MAX_LINE and isinstance(line, EventLine):
            data = encode(_too_long(line))
        if len(data) > MAX_LINE:
            raise ValueError(f"a line of {len(data):,} bytes is longer than {MAX_LINE:,}")
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self._file.write(rest) or 0 :]
            if not self._owned:
                self._file.flush()
        except OSError:
            if self._owned:  # the disk is full: remove the partial line
                with contextlib.suppress(OSError):
                    self._file.truncate(self._whole)
            raise
        self._whole += len(data)

    def close(self) -> None:
        """Flush everything to disk and close the file. Idempotent.

        Without an `EndLine`, readers treat the transcript as incomplete.
        """
        if self._closed:
            return
        self._closed = True
        if not self._owned:
            return
        try:
            os.fsync(self._file.fileno())
        finally:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _made(path: Path, *, overwrite: bool) -> IO[bytes]:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        descriptor = os.open(path, flags, 0o600)
    except FileExistsError:
        if not overwrite or (path.exists() and not path.is_file()):  # a device, a pipe
            raise
        # a new file: it inherits no mode, and processes with the old file open cannot read it
        path.unlink()
        descriptor = os.open(path, flags, 0o600)
    return os.fdopen(descriptor, "wb", buffering=0)


def _too_long(line: EventLine) -> EventLine:
    event = line.event
    seq = event.seq or 0
    gap = Gap(
        seq=event.seq, id=event.id, session_id=event.session_id, job_id=event.job_id, ts=event.ts,
        first=seq, last=seq, reason="undecodable",
    )  # fmt: skip
    return EventLine(at=line.at, event=gap)


def write(
    path: str | os.PathLike[str],
    lines: Iterable[Line],
    *,
    scrubber: Scrubber | None = _BY_NAME,
    overwrite: bool = False,
) -> None:
    """Write a transcript from complete lines. The first may be its header.

    Raises:
        OSError: like `Writer`.
    """
    rest = iter(lines)
    first = next(rest, None)
    given = first if isinstance(first, Header) else None
    with Writer(path, given, scrubber=scrubber, overwrite=overwrite) as writer:
        if first is not None and given is None:
            writer.write(first)
        for line in rest:
            writer.write(line)


class Recording:
    """Adds the time to the lines of jobs and events, and writes them.

    Args:
        writer: writes the lines.
        clock: a monotonic clock in seconds; the recording begins at its present value.
    """

    def __init__(self, writer: Writer, *, clock: Callable[[], float] = time.monotonic) -> None:
        check.an_instance("writer", writer, Writer, "a Writer")
        check.a_function("clock", clock, sync=True)
        self._writer = writer
        self._clock = clock
        self._began = clock()
        self._last = 0.0

    def _at(self) -> float:
        self._last = max(self._last, self._clock() - self._began)
        return self._last

    def began(self, handle: JobHandle, *, parent_job_id: str | None = None) -> None:
        """Record the beginning of a job."""
        self._writer.write(job(handle, self._at(), parent_job_id=parent_job_id))

    def event(self, event: Event, *, job_id: str | None = None) -> None:
        """Record an event from the stream of a job."""
        self._writer.write(entry(event, self._at(), job_id=job_id))

    def write(self, line: Line) -> None:
        """Write any line, with the present time."""
        self._writer.write(replace(line, at=self._at()))

    def ended(self, handle: JobHandle, error: BaseException | None = None) -> None:
        """Record the end of a job, or of its recording; ``error`` comes from its ``result()``."""
        self._writer.write(outcome(handle.id, handle.status, self._at(), error=error))

    def end(self, reason: str = "complete") -> None:
        """Complete the recording with an end line, and close the file."""
        self._writer.write(EndLine(at=self._at(), reason=reason))
        self._writer.close()

    def close(self) -> None:
        """Close the file. Without a call of `end`, readers treat it as incomplete. Idempotent."""
        self._writer.close()
