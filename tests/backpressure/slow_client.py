"""A client whose handler is slow, in a process of its own; prints how its memory grew, as JSON.

``python -m tests.backpressure.slow_client URL``
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys

from arcp_client import Client, events
from tests.alone import resident


async def main(url: str) -> None:
    count = before = peak = 0
    async with Client(url) as client:

        @client.on(events.Event)
        async def handle(event: events.Event) -> None:
            nonlocal count, before, peak
            count += 1
            if count % 5000 == 0:
                await asyncio.sleep(0.001)
                if count == 20_000:
                    gc.collect()
                    before = resident()
                peak = max(peak, resident())

        job = await client.submit("flood")
        await job.result()
        await client.drain()
        gaps = client.stats().gaps
    print(json.dumps({"handled": count, "gaps": gaps, "growth": peak - before}))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
