"""Reads the events of an iterator in batches: a long history takes less time than one by one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Callable

from arcp_client._attempts import AttemptsIterator
from arcp_client._dispatch.streams import Iteration
from arcp_client.events import Event

__all__ = ["TOGETHER", "batches"]

TOGETHER = 128
"""The maximum number of events of a batch; other tasks run after a full one."""


async def batches(
    iterator: AsyncIterable[Event], together: Callable[[], bool] = lambda: True
) -> AsyncGenerator[list[Event], None]:
    """Yield the events of an iterator, in order, as many at a time as have arrived.

    The events of a batch count as processed when the next one is requested.

    Args:
        iterator: the iterator, of which no batch was read before.
        together: returns whether to go on with batches; else events follow one by one.

    Raises:
        ArcpError: as the iteration.
    """
    if isinstance(iterator, Iteration | AttemptsIterator):
        processed = 0
        try:
            while together():
                try:
                    batch: list[Event] = await iterator.batch(processed, TOGETHER)
                except StopAsyncIteration:
                    return
                processed += len(batch)
                yield batch
                if len(batch) == TOGETHER:
                    await asyncio.sleep(0)
        finally:
            if processed:
                iterator.settle(processed)
    async for event in iterator:
        yield [event]
