"""A store of checkpoints of your own: one JSON file for each checkpoint."""

import fcntl
import hashlib
import os
from pathlib import Path

from pydantic import TypeAdapter

from arcp_client.errors import StoreLocked
from arcp_client.models import Checkpoint

JSON = TypeAdapter(Checkpoint)


class JsonStore:
    durable = True
    every = 256
    interval = 0.25

    def __init__(self, directory: str | Path) -> None:
        self._directory = Path(directory)
        self._locks: dict[Path, int] = {}

    async def acquire(self, target: str, key: str) -> Checkpoint | None:
        path = self._path(target, key)
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # ends with the process, too
            found = JSON.validate_json(path.read_bytes()) if path.exists() else None
        except BlockingIOError:
            os.close(lock)
            raise StoreLocked(f"another client holds the checkpoint {key} of {target}") from None
        except BaseException:
            os.close(lock)
            raise
        self._locks[path] = lock
        return found

    async def save(self, target: str, key: str, checkpoint: Checkpoint) -> None:
        path = self._path(target, key)
        part = path.with_suffix(".part")
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(JSON.dump_json(checkpoint))
        part.replace(path)  # at once: a crash leaves the old checkpoint or the new one

    async def delete(self, target: str, key: str) -> None:
        self._path(target, key).unlink(missing_ok=True)

    async def release(self, target: str, key: str) -> None:
        if (lock := self._locks.pop(self._path(target, key), None)) is not None:
            os.close(lock)

    def spool(self, target: str, key: str) -> Path | None:
        return None  # chunks of results stay in memory

    def _path(self, target: str, key: str) -> Path:
        name = hashlib.sha256(f"{target} {key}".encode()).hexdigest()
        return self._directory / f"{name}.json"
