"""Checkpoints in memory: for tests, and for several clients one after another in one process."""

from __future__ import annotations

import secrets
import shutil
import tempfile
import weakref
from pathlib import Path

from arcp_client import _arguments as check
from arcp_client.errors import StoreLocked
from arcp_client.models import Checkpoint

__all__ = ["MemoryStore"]


class MemoryStore:
    """A `CheckpointStore` in memory, which lasts as long as the object does.

    Chunked results go to temporary files, which are deleted with the object.

    Args:
        every: events between two checkpoints.
        interval: seconds between two checkpoints.
    """

    durable = False

    def __init__(self, *, every: int = 256, interval: float = 0.25) -> None:
        check.a_number("every", every, least=1)
        check.seconds("interval", interval, above=True)
        self.every = every
        self.interval = interval
        self._kept: dict[tuple[str, str], Checkpoint] = {}
        self._held: set[tuple[str, str]] = set()
        self._spools: dict[tuple[str, str], Path] = {}
        weakref.finalize(self, _remove, self._spools)

    async def acquire(self, target: str, key: str) -> Checkpoint | None:
        """Lock a checkpoint and return it; ``None`` if there is none yet.

        Raises:
            StoreLocked: another client holds it.
        """
        if (target, key) in self._held:
            raise StoreLocked(f"another client holds the checkpoint {key!r} of {target}")
        self._held.add((target, key))
        return self._kept.get((target, key))

    async def save(self, target: str, key: str, checkpoint: Checkpoint) -> None:
        """Replace the checkpoint."""
        self._kept[target, key] = checkpoint

    async def delete(self, target: str, key: str) -> None:
        """Delete the checkpoint and its stored results. Idempotent."""
        self._kept.pop((target, key), None)
        spool = self._spools.pop((target, key), None)
        if spool is not None:
            shutil.rmtree(spool, ignore_errors=True)

    async def release(self, target: str, key: str) -> None:
        """Unlock the checkpoint. Idempotent."""
        self._held.discard((target, key))

    def spool(self, target: str, key: str) -> Path | None:
        """Return a temporary directory, made on first use and deleted with the store."""
        spool = self._spools.get((target, key))
        if spool is None:
            name = f"arcp-client-{secrets.token_hex(16)}"
            spool = self._spools[target, key] = Path(tempfile.gettempdir(), name)
        return spool


def _remove(spools: dict[tuple[str, str], Path]) -> None:
    for spool in spools.values():
        shutil.rmtree(spool, ignore_errors=True)
