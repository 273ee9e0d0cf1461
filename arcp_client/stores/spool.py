"""Logs the chunks of a result to a file, one line each, so that they survive a restart.

The rule is D13 in docs/explanation/rules.md.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path

from arcp_client._log_fields import log_fields
from arcp_client.events import ResultChunk

__all__ = ["ChunkLog"]

_log = logging.getLogger("arcp_client.stores")


class ChunkLog:
    """The chunks of one job's result, written to disk before they count as processed.

    Chunks that `append` has written survive the death of the process. A truncated last line is
    skipped: its event does not count as processed, so the runtime sends it again.

    Args:
        directory: the directory for results; created if missing, accessible to its owner only.
        job_id: the job of the result.
    """

    def __init__(self, directory: Path, job_id: str) -> None:
        self.path = directory / self.name_for(job_id)
        self._job_id = job_id
        self._fd: int | None = None
        self._broken = False

    @property
    def size(self) -> int:
        """The size of the file in bytes."""
        try:
            return self.path.stat().st_size
        except OSError:
            return 0

    @staticmethod
    def name_for(job_id: str) -> str:
        """Return the file name for a job, because a job's id need not be a valid file name."""
        return hashlib.sha256(job_id.encode("utf-8", "surrogatepass")).hexdigest()[:32]

    def __iter__(self) -> Iterator[ResultChunk]:
        try:
            data = self.path.read_bytes()
        except OSError:
            return
        whole = data.rpartition(b"\n")[0]
        for line in whole.split(b"\n") if whole else ():
            try:
                result_id, number, text, encoding, more = json.loads(line)
            except ValueError:
                return
            yield ResultChunk(
                job_id=self._job_id,
                result_id=result_id,
                chunk_seq=number,
                data=text,
                encoding=encoding,
                more=more,
            )
        if len(whole) + 1 < len(data):
            with contextlib.suppress(OSError):
                os.truncate(self.path, len(whole) + 1 if whole else 0)

    def append(self, chunk: ResultChunk) -> None:
        """Append a chunk. A failed write is logged; a restart then finds the result incomplete."""
        if self._broken:
            return
        row = [chunk.result_id, chunk.chunk_seq, chunk.data, chunk.encoding, chunk.more]
        line = json.dumps(row).encode() + b"\n"
        try:
            if self._fd is None:
                self.path.parent.mkdir(mode=0o700, exist_ok=True)
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
                self._fd = os.open(self.path, flags, 0o600)
            view = memoryview(line)
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError as error:
            self._broken = True
            _log.error(
                "the result of job %s will not survive a restart: %s",
                self._job_id,
                error,
                extra=log_fields(job=self._job_id),
            )

    def close(self) -> None:
        """Close the file."""
        if self._fd is not None:
            fd, self._fd = self._fd, None
            os.close(fd)

    def remove(self) -> None:
        """Close and delete the file. Idempotent."""
        self.close()
        with contextlib.suppress(OSError):
            self.path.unlink()
