"""The interface between a client and a store of checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, runtime_checkable

from arcp_client.models import Checkpoint

__all__ = ["CheckpointStore"]


@runtime_checkable
class CheckpointStore(Protocol):
    """Keeps one checkpoint for each (target, key), and lets one client at a time hold it.

    Attributes:
        durable: whether checkpoints outlive the process.
        every: a checkpoint is saved at least once per this many events. Sequence numbers are
            reserved in blocks of this size before handlers may see their events, which bounds how
            many events a handler may see again after a crash.
        interval: seconds after which a changed checkpoint is saved at the latest.
    """

    durable: bool
    every: int
    interval: float

    async def acquire(self, target: str, key: str) -> Checkpoint | None:
        """Lock a checkpoint and return it; ``None`` if there is none yet.

        Raises:
            StoreLocked: another client, in this or another process, holds it.
        """

    async def save(self, target: str, key: str, checkpoint: Checkpoint) -> None:
        """Replace the checkpoint atomically.

        Raises:
            StoreLocked: another client took over the checkpoint. This client is closed with that
                error and no longer changes the store. After any other exception, the save is
                retried each second.
        """

    async def delete(self, target: str, key: str) -> None:
        """Delete the checkpoint and its stored results. Idempotent."""

    async def release(self, target: str, key: str) -> None:
        """Unlock the checkpoint. Idempotent."""

    def spool(self, target: str, key: str) -> Path | None:
        """Return a directory for chunked results, or ``None`` to keep them in memory."""
