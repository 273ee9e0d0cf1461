"""Reads the events of an iterator in batches: a long history takes less time than one by one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from arcp_client._attempts import AttemptsIterator
from arcp_client._dispatch.streams import Iteration
from arcp_client.events import Event
from arcp_client.job import JobHandle

__all__ = ["TOGETHER", "batches"]

TOGETHER = 128
"""The maximum number of events of a batch; other tasks run after a full one."""


async def batches(job: JobHandle) -> AsyncGenerator[list[Event], None]:
    """Yield all events of a job, in order, as many at a time as have arrived.

    The events of a batch count as processed when the next one is requested.

    Raises:
        ArcpError: as the iteration over the job.
    """
    iterator = job.events()
    assert isinstance(iterator, Iteration | AttemptsIterator)
    processed = 0
    while True:
        try:
            batch: list[Event] = await iterator.batch(processed, TOGETHER)
        except StopAsyncIteration:
            return
        processed += len(batch)
        yield batch
        if len(batch) == TOGETHER:
            await asyncio.sleep(0)
