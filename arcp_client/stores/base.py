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
        every: number of events after which a changed checkpoint is saved at the latest. Before
            events are delivered, the client also records the highest number that it may deliver,
            at most this many events ahead. After a crash, handlers get at most this many events
            again that all consumers had finished. An event that a slow consumer had not finished
            is delivered again to all consumers.
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
