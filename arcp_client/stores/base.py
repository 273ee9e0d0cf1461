"""The interface between a client and a store of checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, runtime_checkable

from arcp_client.models import Checkpoint

__all__ = ["CheckpointStore", "TransactionsEnded"]


class TransactionsEnded(Exception):
    """No further handler that is registered with ``tx=pool`` can be called (rule D22).

    Such handlers run in transactions of the store's database. The cause of this exception is an
    `ArcpError`, with which the client closes.
    """


@runtime_checkable
class CheckpointStore(Protocol):
    """Keeps checkpoints, from which clients resume after a restart.

    A checkpoint belongs to a target (a runtime) and a key, as in ``Client(target, key=…)``. Only
    one client at a time can lock it.

    Attributes:
        durable: whether checkpoints outlive the process.
        every: number of events after which a changed checkpoint is saved at the latest. Before
            events are delivered, the client also records the highest number that it may deliver,
            at most this many events ahead. After a crash, all consumers get the events again that
            the saved checkpoint does not cover. At most ``every`` of these had been finished by
            all consumers; the others had not been finished by the slowest consumer.
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
