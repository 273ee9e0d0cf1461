"""Keeps the submits of the bridge, so that another process can cancel the jobs.

Only a session that has submitted a job may cancel it (§7.4). Another process repeats the submit
with the same idempotency key (§7.2), which makes its session a submitter without a second job.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from arcp_client import _arguments as check

__all__ = ["FileSubmits", "Submits"]

_KEPT = 86_400.0
"""Seconds: the time for which this package's runtime knows an idempotency key."""
_MOST = 1024


@runtime_checkable
class Submits(Protocol):
    """Where `server` keeps the arguments of its submits."""

    async def keep(self, job_id: str, submit: Mapping[str, Any]) -> None:
        """Keep the arguments of ``Client.submit`` of a job. A failure must not raise."""

    async def find(self, job_id: str) -> Mapping[str, Any] | None:
        """Return the arguments of a job's submit; ``None`` if they are not known."""


class FileSubmits:
    """Keeps submits in files of a directory that only this user can read.

    At most 1,024 files, each for a day at most. They contain the inputs of jobs.

    Args:
        directory: the directory; it is made on first use.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        check.a_path("directory", directory)
        self._directory = Path(directory)

    async def keep(self, job_id: str, submit: Mapping[str, Any]) -> None:
        """See `Submits`."""
        await asyncio.to_thread(self._write, job_id, json.dumps(dict(submit)).encode())

    async def find(self, job_id: str) -> Mapping[str, Any] | None:
        """See `Submits`."""
        return await asyncio.to_thread(self._read, job_id)

    def _write(self, job_id: str, data: bytes) -> None:
        # A full disk must not fail the call: the job runs, and this process can cancel it.
        with contextlib.suppress(OSError):
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._sweep()
            part = self._directory / f"{secrets.token_hex(8)}.part"
            with os.fdopen(
                os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb"
            ) as file:
                file.write(data)
            part.replace(self._path(job_id))

    def _read(self, job_id: str) -> Mapping[str, Any] | None:
        try:
            kept = json.loads(self._path(job_id).read_bytes())
        except (OSError, ValueError, RecursionError):
            return None
        return kept if isinstance(kept, dict) else None

    def _path(self, job_id: str) -> Path:
        # The runtime chooses the ids: they are no names of files.
        name = hashlib.sha256(job_id.encode("utf-8", "replace")).hexdigest()
        return self._directory / f"{name}.json"

    def _sweep(self) -> None:
        ages = []
        for path in self._directory.iterdir():
            with contextlib.suppress(OSError):
                ages.append((path.stat().st_mtime, path))
        for n, (age, path) in enumerate(sorted(ages, reverse=True)):
            if n >= _MOST - 1 or time.time() - age > _KEPT:
                path.unlink(missing_ok=True)
