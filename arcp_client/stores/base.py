"""The interface between a client and a store of checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, runtime_checkable

from arcp_client.models import Checkpoint

__all__ = ["CheckpointStore", "TransactionsEnded"]


class TransactionsEnded(Exception):
    """No handler can be called in a transaction any more; the cause says why (rule D22).

    The client ends with the cause, an `ArcpError`.
    """


@runtime_checkable
class CheckpointStore(Protocol):
    """Keeps one checkpoint for each pair of target and key, which one client at a time can lock.

    Attributes:
        durable: whether checkpoints outlive the process.
        every: number of events after which a checkpoint is saved at the latest. Before handlers get
            events, the client records in the store up to which number they may get them, this many
            at a time. After a crash, at most this many events are handled again with which all
            consumers had finished. Events with which a slow consumer had not finished are handled
            again by all.
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
            StoreLocked: another client has taken over the checkpoint. The calling client is then
                closed with this error and no longer changes the store. After any other exception,
                the client retries the save each second.
        """

    async def delete(self, target: str, key: str) -> None:
        """Delete the checkpoint and its stored results. Idempotent."""

    async def release(self, target: str, key: str) -> None:
        """Unlock the checkpoint. Idempotent."""

    def spool(self, target: str, key: str) -> Path | None:
        """Return a directory for chunked results, or ``None`` to keep them in memory."""
