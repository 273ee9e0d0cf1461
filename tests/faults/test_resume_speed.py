"""A resume with 10,000 missed events: how long until the last handler ran, beside the same live.

The ratio is printed, not demanded: see ``pytest -s``. What is demanded is that all of them come.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from tenacity import wait_fixed

from arcp_client import Client, JobContext, Live, Reconnect, Runtime, events
from arcp_client.testing import FaultyProxy

MISSED = 10_000


async def test_ten_thousand_missed_events_come_after_a_resume(record_property: Any) -> None:
    go = asyncio.Event()
    async with Runtime(name="speed") as runtime:

        @runtime.agent("burst")
        async def burst(input: Any, job: JobContext) -> int:
            await job.log("ready")
            await go.wait()
            for n in range(MISSED):
                await job.progress(n)
            return MISSED

        async with runtime.serve() as server, FaultyProxy(server.url) as proxy:
            client = Client(proxy.url, reconnect=Reconnect(wait=wait_fixed(0.0)))
            seen: list[float] = []
            last = asyncio.Event()

            @client.on(events.Progress)
            async def handle(event: events.Progress) -> None:
                seen.append(event.current)
                if len(seen) == MISSED:
                    last.set()

            async def one_run(*, away: bool) -> float:
                seen.clear()
                last.clear()
                go.clear()
                job = await client.submit("burst")
                await anext(aiter(job))
                if not away:
                    started = time.perf_counter()
                    go.set()
                    await last.wait()
                    taken = time.perf_counter() - started
                else:
                    with proxy.refuse():
                        proxy.cut()
                        while isinstance(client.state, Live):
                            await asyncio.sleep(0)
                        go.set()
                        async with Client(runtime) as other:
                            view = await other.watch(job.id)
                            await view.result()
                    started = time.perf_counter()
                    await last.wait()
                    taken = time.perf_counter() - started
                assert (await job.result()).value == MISSED
                assert seen == list(range(MISSED))
                return taken

            async with client:
                live = await one_run(away=False)
                resumed = await one_run(away=True)
    record_property("ratio", resumed / live)
    print(f"live {live:.3f} s, after a resume {resumed:.3f} s, ratio {resumed / live:.2f}")
