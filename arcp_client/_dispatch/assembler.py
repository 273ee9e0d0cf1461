"""Assembles a streamed result from its chunks (§8.4), with limited memory.

Each chunk counts once, in the order of ``chunk_seq``. A result of more than 8 MiB is kept in a
temporary file. An incomplete result raises ResultIncomplete (rule S19).

See rule D13 in docs/explanation/rules.md.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import io
import logging
import tempfile
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import IO, Protocol

from arcp_client._log_fields import log_fields
from arcp_client._wire.halves import TextJoiner
from arcp_client.errors import ArcpError, ResultIncomplete
from arcp_client.events import ResultChunk

__all__ = ["Assembler", "ChunkStore"]

_logger = logging.getLogger("arcp_client.dispatch")

_IN_MEMORY = 8 * 1024 * 1024
_AHEAD = 1024
_PADDING = 2
"""Excess bytes for each base64 chunk in the size that an estimating runtime states."""


class ChunkStore(Protocol):
    """Stores the chunks of a result beyond the end of the process."""

    def append(self, chunk: ResultChunk) -> None:
        """Store one chunk; must not raise."""

    def close(self) -> None:
        """Close the log; no further chunk is appended."""


class Assembler:
    """The chunks of one result.

    Args:
        job_id: the job of the result.
        log: called with the first chunk; returns the log that stores each chunk before the chunk
            counts as processed, or ``None``.
        exact: whether the runtime states exact sizes in bytes.

    Attributes:
        result_id: the id of the result; a chunk with another id makes the result inconsistent.
        size: bytes assembled so far.
    """

    def __init__(
        self,
        job_id: str,
        *,
        log: Callable[[], ChunkStore | None] = lambda: None,
        exact: Callable[[], bool] = lambda: False,
    ) -> None:
        self.job_id = job_id
        self._exact = exact
        self._find_log = log
        self._log: ChunkStore | None = None
        self.result_id: str | None = None
        self.size = 0
        self._file: IO[bytes] = io.BytesIO()
        self._ends: list[int] = []
        self._hashes: list[int] = []
        self._ahead: dict[int, ResultChunk] = {}
        self._text = True
        self._joiner = TextJoiner()
        self._slack = 0
        self._problem: str | None = None
        self._complete = False
        self._final: int | None = None
        self._lossy = False
        self._stated: int | None = None
        self._error: ArcpError | None = None
        self._waiters: list[asyncio.Future[None]] = []

    @property
    def started(self) -> bool:
        """Whether any chunk has arrived."""
        return self.result_id is not None

    def add(self, chunk: ResultChunk) -> None:
        """Add one chunk. A repeated chunk is dropped. A chunk behind a missing one is kept."""
        if self._complete or self._error is not None:
            return
        if self.result_id is None:
            self.result_id = chunk.result_id
        elif chunk.result_id != self.result_id:
            self._problem = f"chunks of two results, {self.result_id} and {chunk.result_id}"
            return
        if not chunk.more:
            self._final = chunk.chunk_seq
        if chunk.chunk_seq < len(self._ends):
            self._compare(chunk, self._hashes[chunk.chunk_seq])
        elif chunk.chunk_seq in self._ahead:
            self._compare(chunk, _hash_of(self._ahead[chunk.chunk_seq]))
        else:
            if len(self._ahead) >= _AHEAD:
                return
            self._keep(chunk)
            self._ahead[chunk.chunk_seq] = chunk
        while (following := self._ahead.pop(len(self._ends), None)) is not None:
            self._append(following)
        self._resolve_waiters()

    def restore(self, kept: Iterable[ResultChunk]) -> None:
        """Add the chunks that an earlier process stored in the log."""
        find, self._find_log = self._find_log, lambda: None
        for chunk in kept:
            self.add(chunk)
        self._find_log = find

    def _keep(self, chunk: ResultChunk) -> None:
        if self._log is None:
            self._log = self._find_log()
        if self._log is not None:
            self._log.append(chunk)

    def _compare(self, chunk: ResultChunk, known: int) -> None:
        """Check that a chunk repeated after a resume, for example, has the same contents."""
        if _hash_of(chunk) != known:
            self._problem = f"chunk {chunk.chunk_seq} arrived twice, with different contents"

    def _append(self, chunk: ResultChunk) -> None:
        self._hashes.append(_hash_of(chunk))
        try:
            data = self._decoded(chunk)
        except (binascii.Error, ValueError) as error:
            self._problem = f"chunk {chunk.chunk_seq} cannot be decoded: {error}"
            data = b""
        self._write(data)
        self._ends.append(self.size)

    def _write(self, data: bytes) -> None:
        self._file.seek(self.size)
        self._file.write(data)
        if self.size + len(data) > _IN_MEMORY and isinstance(self._file, io.BytesIO):
            self._spill(self._file)
        self.size += len(data)

    def _spill(self, memory: io.BytesIO) -> None:
        file = tempfile.TemporaryFile()  # noqa: SIM115  closed with this object
        file.write(memory.getbuffer())
        weakref.finalize(self, file.close)
        self._file = file

    def _decoded(self, chunk: ResultChunk) -> bytes:
        if chunk.encoding == "base64":
            self._text = False
            self._slack += _PADDING
            return self._joiner.end() + base64.b64decode(chunk.data, validate=True)
        if chunk.encoding != "utf8":
            raise ValueError(f"unknown encoding {chunk.encoding[:40]!r}")
        return self._joiner.add(chunk.data)

    # -- the end

    def mark_lossy(self) -> None:
        """Record that chunks may be lost: a result without a marked last chunk is incomplete."""
        self._lossy = True

    def finish(self, result_id: str | None, size: int | None = None) -> None:
        """Complete the result at the job's terminal event. No missing chunk can arrive any more.

        Args:
            result_id: the result's id in the terminal event.
            size: the size in bytes in the terminal event.
        """
        self._stated = size
        if result_id is not None and self.result_id not in (None, result_id):
            self._problem = f"the result is {result_id}, the chunks are of {self.result_id}"
        self.result_id = self.result_id or result_id
        self._complete = True
        half = self._joiner.end()
        if half:
            self._write(half)
            self._ends[-1] = self.size
        if size is not None and self.started and size != self.size:
            text = "the result of job %s has %d bytes, its runtime stated %d"
            _logger.warning(text, self.job_id, self.size, size, extra=log_fields(job=self.job_id))
        if self._log is not None:
            self._log.close()
        self._resolve_waiters()

    def fail(self, error: ArcpError) -> None:
        """End the result with an error, because the job failed or was lost."""
        if not self._complete and self._error is None:
            self._error = error
            if self._log is not None:
                self._log.close()
            self._resolve_waiters()

    def value(self) -> str | bytes:
        """The joined chunks: ``str`` if every chunk was text, else ``bytes``.

        Raises:
            ResultIncomplete: chunks are missing or unreadable, arrived twice with different
                contents, belong to two results, or have another total size than the runtime stated.
        """
        joined = self._read(0, self.size)
        value: str | bytes = joined.decode() if self._text else joined
        missing = self.missing()
        why = self._problem or self._wrong_size()
        if missing or why is not None or self._cut_short():
            why = why or f"chunks {_listed(missing)} of {self.result_id} never arrived"
            raise ResultIncomplete(
                f"job {self.job_id}: {why}", missing=missing, partial=value, job_id=self.job_id
            )
        return value

    def _cut_short(self) -> bool:
        """Whether chunks at the end may be lost, because no chunk was marked as the last one."""
        return self._lossy and self._final is None and self._stated != self.size

    def _wrong_size(self) -> str | None:
        """Describe a difference from the size that the runtime stated; ``None`` if there is none.

        Some runtimes count characters, or estimate. Such a size is compared only if no chunk was
        marked as the last, and only a result that is shorter is wrong.
        """
        stated = self._stated
        if stated is None or stated == self.size or not self.started:
            return None
        short = self._final is None and self.size + self._slack < stated
        if not short and not self._exact():
            return None
        return f"{self.result_id} has {self.size} bytes, the runtime stated {stated}"

    def missing(self) -> tuple[int, ...]:
        """The missing numbers below the last known one, or the first number of a missing end."""
        last = max([len(self._ends) - 1, *self._ahead])
        if self._final is not None:
            last = max(last, self._final)
        elif not self._ends and self._complete:
            last = max(last, 0)
        stated = self._stated or 0
        short = self.size < stated and self._wrong_size() is not None
        if self._complete and self._final is None and (short or self._cut_short()):
            last = max(last, len(self._ends))
        return tuple(n for n in range(len(self._ends), last + 1) if n not in self._ahead)

    async def chunks(
        self, wait: Callable[[asyncio.Future[None]], Awaitable[None]]
    ) -> AsyncIterator[bytes]:
        """Iterate over the decoded chunks, from the first one on, as they arrive.

        Args:
            wait: waits for a future that the next chunk resolves.

        Raises:
            ResultIncomplete: at the first missing chunk, once the job has ended.
        """
        at = 0
        while True:
            while at < len(self._ends):
                start = self._ends[at - 1] if at else 0
                at += 1
                yield self._read(start, self._ends[at - 1])
            if self._error is not None:
                raise self._error
            if self._complete:
                if self.started:
                    self.value()
                return
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await wait(waiter)

    def _read(self, start: int, end: int) -> bytes:
        self._file.seek(start)
        return self._file.read(end - start)

    def _resolve_waiters(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


def _hash_of(chunk: ResultChunk) -> int:
    return hash((chunk.encoding, chunk.data))


def _listed(numbers: tuple[int, ...]) -> str:
    text = ", ".join(map(str, numbers[:10]))
    return f"{text}, …" if len(numbers) > 10 else text
