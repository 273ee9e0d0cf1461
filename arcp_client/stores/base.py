"""The interface between a client and a store of checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, runtime_checkable

from arcp_client.models import Checkpoint

__all__ = ["CheckpointStore"]


@runtime_checkable
class CheckpointStore(Protocol):
    """Keeps one checkpoint for each (target, key) and lets one client at a time hold it.

    Attributes:
        durable: what is kept outlives the process.
        every: a checkpoint is saved at least every so many events, and numbers are reserved in
            blocks of this size before handlers may see them. It bounds how many events a handler
            may see again after a crash.
        interval: seconds after which a changed checkpoint is saved at the latest.
    """

    durable: bool
    every: int
    interval: float

    async def acquire(self, target: str, key: str) -> Checkpoint | None:
        """Take hold of a checkpoint, and give it if there is one.

        Raises:
            StoreLocked: another client, in this or another process, holds it.
        """

    async def save(self, target: str, key: str, checkpoint: Checkpoint) -> None:
        """Put it in the place of the one before, all or nothing.

        Raises:
            StoreLocked: another client holds it by now. This one is closed with that error, and
                touches what is stored no more; any other exception is tried again each second.
        """

    async def delete(self, target: str, key: str) -> None:
        """Forget it, and everything kept beside it. Idempotent."""

    async def release(self, target: str, key: str) -> None:
        """Let go of it. Idempotent."""

    def spool(self, target: str, key: str) -> Path | None:
        """A directory for results that come in chunks, ``None`` to keep them in memory only."""
