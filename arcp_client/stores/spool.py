"""A log of the chunks of results, one line of a file each, for after a restart (D13)."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path

from arcp_client.events import ResultChunk

__all__ = ["ChunkLog"]

_log = logging.getLogger("arcp_client.stores")


class ChunkLog:
    """The chunks of one job's result, on the disk before they count as processed.

    What `append` wrote survives the death of the process. A line that was cut short is not given
    back: its event was not processed, so it comes again.

    Args:
        directory: where results are kept; made if need be, for its owner only.
        job_id: whose result it is.
    """

    def __init__(self, directory: Path, job_id: str) -> None:
        self.path = directory / self.name_for(job_id)
        self._job_id = job_id
        self._fd: int | None = None
        self._broken = False

    @property
    def size(self) -> int:
        """Bytes on the disk."""
        try:
            return self.path.stat().st_size
        except OSError:
            return 0

    @staticmethod
    def name_for(job_id: str) -> str:
        """The name of a job's file; ids of runtimes are no file names."""
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
        """Keep one more. A disk that is full is reported; the result is incomplete then."""
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
            _log.error("the result of job %s will not survive a restart: %s", self._job_id, error)

    def close(self) -> None:
        """Let go of the file."""
        if self._fd is not None:
            fd, self._fd = self._fd, None
            os.close(fd)

    def remove(self) -> None:
        """The result is of no more interest. Idempotent."""
        self.close()
        with contextlib.suppress(OSError):
            self.path.unlink()
