"""A Redis stream with a consumer group: an entry is acknowledged when it is handled."""

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from typing import Any

from redis.asyncio import Redis

from arcp_client.rx import AckedSource, concat_map_async

STREAM, GROUP, CONSUMER = "orders", "billing", "worker-1"
Entry = tuple[str, dict[str, str]]


async def entries(redis: Redis) -> AsyncIterator[Entry]:
    """First what this consumer took and did not acknowledge, then what is new."""
    after = "0"
    while True:
        answer: Any = await redis.xreadgroup(GROUP, CONSUMER, {STREAM: after}, 16, block=500)
        batch = answer[0][1] if answer else []
        for entry in batch:
            yield entry
        if after != ">":
            after = batch[-1][0] if batch else ">"


async def work(redis: Redis, *, fails_at: str = "") -> None:
    async def handle(entry: Entry) -> None:
        number = entry[1]["number"]
        if number == fails_at:
            raise OSError(f"the disk is full at {number}")
        print("handled", number)
        if number == "6":
            finished.set()

    async def acknowledge(handled: Sequence[Entry]) -> None:
        await redis.xack(STREAM, GROUP, *(entry[0] for entry in handled))

    def stopped(error: Exception) -> None:
        print("stopped:", error)
        finished.set()

    finished = asyncio.Event()
    source = AckedSource(entries(redis), acknowledge, cap=64)
    source.observable().pipe(concat_map_async(handle, on_error="raise")).subscribe(on_error=stopped)
    await finished.wait()
    await source.aclose()


async def main(url: str) -> None:
    async with Redis.from_url(url, decode_responses=True) as redis:
        await redis.xgroup_create(STREAM, GROUP, id="0", mkstream=True)
        for number in range(1, 7):
            await redis.xadd(STREAM, {"number": number})
        await work(redis, fails_at="3")
        await work(redis)
        print("not acknowledged:", (await redis.xpending(STREAM, GROUP))["pending"])


asyncio.run(main(sys.argv[1]))
