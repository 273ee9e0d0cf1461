"""One client that takes in the load of ``frames_server`` in one way; prints what it cost as JSON.

    python benchmarks/consume.py WAY PORT EVENTS

It runs in a process of its own, so that its peak memory is its own. The clock starts with the first
event and stops when the last one was handled.
"""

import asyncio
import json
import resource
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

JOBS = 100

# tenacity imports tornado where it is installed, as in a development environment. That would add
# 2.3 MiB to the memory of the clients that use tenacity.
sys.modules["tornado"] = None  # type: ignore[assignment]


class Meter:
    """Counts events; the first one starts the clocks."""

    def __init__(self) -> None:
        self.count = 0
        self.wall = self.cpu = 0.0

    def first(self) -> None:
        self.wall, self.cpu = time.perf_counter(), time.process_time()

    def report(self, way: str) -> dict[str, Any]:
        wall, cpu = time.perf_counter() - self.wall, time.process_time() - self.cpu
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return {
            "way": way,
            "events": self.count,
            "events_per_second": self.count / wall,
            "cpu_us_per_event": cpu / self.count * 1e6,
            "peak_mib": peak / (1 << (20 if sys.platform == "darwin" else 10)),
        }


async def bare(url: str, events: int, meter: Meter, read: Callable[[str], Any]) -> None:
    """What any client on aiohttp pays, and one that parses as well."""
    import aiohttp

    hello = {"arcp": "1.1", "id": "01J1", "type": "session.hello", "payload": {}}
    submit = {"agent": "load", "input": {"events": events}}
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(url, compress=0, max_msg_size=0) as ws,
    ):
        await ws.send_json(hello)
        await ws.receive()
        await ws.send_json({"arcp": "1.1", "id": "01J2", "type": "job.submit", "payload": submit})
        await ws.receive()
        message = await ws.receive()
        meter.first()
        while True:
            read(message.data)
            meter.count += 1
            if meter.count == events + 1:
                return
            message = await ws.receive()


async def typed(url: str, events: int, meter: Meter) -> None:
    """What a careful author writes by hand: one typed pass a frame, and an awaited handler.

    It promises nothing else: no order, resume, acknowledgement or limit.
    """
    import aiohttp
    import msgspec

    class Payload(msgspec.Struct, gc=False):
        kind: str = ""
        ts: datetime | None = None
        body: dict[str, Any] = {}

    class Event(msgspec.Struct, gc=False):
        type: str
        id: str
        session_id: str = ""
        job_id: str | None = None
        event_seq: int | None = None
        trace_id: str | None = None
        payload: Payload | None = None

    decode = msgspec.json.Decoder(Event).decode

    async def handle(event: Event) -> None:
        if not meter.count:
            meter.first()
        meter.count += 1

    submit = {"agent": "load", "input": {"events": events}}
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(url, compress=0, max_msg_size=0, decode_text=False) as ws,
    ):
        await ws.send_json({"arcp": "1.1", "id": "01J1", "type": "session.hello", "payload": {}})
        await ws.receive()
        await ws.send_json({"arcp": "1.1", "id": "01J2", "type": "job.submit", "payload": submit})
        await ws.receive()
        while meter.count <= events:  # and the end of the job
            await handle(decode((await ws.receive()).data))


async def reference(url: str, events: int, meter: Meter) -> None:
    """The Python reference client, its events read by an iterator."""
    from arcp import ClientInfo, WebSocketTransport
    from arcp.client import ARCPClient

    client = ARCPClient(client=ClientInfo(name="bench", version="1"), token="t", auto_ack=True)
    await client.connect(await WebSocketTransport.connect(url, compression=None))
    job = await client.submit(agent="load", input={"events": events})
    async for _ in job.events():
        if not meter.count:
            meter.first()
        meter.count += 1
    await job.done
    await client.close()


def ours(consume: Callable[..., Awaitable[None]], jobs: int = 1) -> Callable[..., Awaitable[None]]:
    async def run(url: str, events: int, meter: Meter) -> None:
        from arcp_client import Client

        async with Client(url, token="t") as client:
            await consume(client, events, meter, jobs)

    return run


async def submitted(client: Any, events: int, jobs: int) -> list[Any]:
    return [await client.submit("load", {"events": events, "jobs": jobs}) for _ in range(jobs)]


async def with_on(client: Any, events: int, meter: Meter, jobs: int, **options: Any) -> None:
    from arcp_client import Event

    async def handle(event: Event) -> None:
        if not meter.count:
            meter.first()
        meter.count += 1

    client.on(Event, **options)(handle)
    for job in await submitted(client, events, jobs):
        await job.result()
    await client.drain()


async def with_batches(client: Any, events: int, meter: Meter, jobs: int) -> None:
    from arcp_client import Event

    async def handle(batch: list[Event]) -> None:
        if not meter.count:
            meter.first()
        meter.count += len(batch)

    client.on(Event, batch=True)(handle)
    for job in await submitted(client, events, jobs):
        await job.result()
    await client.drain()


async def with_order_job(client: Any, events: int, meter: Meter, jobs: int) -> None:
    from arcp_client import Order

    await with_on(client, events, meter, jobs, order=Order.JOB)


async def with_async_for(client: Any, events: int, meter: Meter, jobs: int) -> None:
    [job] = await submitted(client, events, jobs)
    async for _ in job:
        if not meter.count:
            meter.first()
        meter.count += 1
    await job.result()


async def with_rx(client: Any, events: int, meter: Meter, jobs: int) -> None:
    from reactivex import operators as ops

    from arcp_client import Event
    from arcp_client.rx import concat_map_async

    async def handle(event: Event) -> None:
        if not meter.count:
            meter.first()
        meter.count += 1

    def numbered(event: Event) -> bool:
        return event.seq is not None

    client.notifications.pipe(ops.filter(numbered), concat_map_async(handle)).subscribe()
    [job] = await submitted(client, events, jobs)
    await job.result()
    await client.drain()


WAYS: dict[str, Callable[..., Awaitable[None]]] = {
    "aiohttp": lambda url, events, meter: bare(url, events, meter, lambda data: None),
    "aiohttp + json.loads": lambda url, events, meter: bare(url, events, meter, json.loads),
    "aiohttp + msgspec": typed,
    "reference client": reference,
    "arcp-client, on": ours(with_on),
    "arcp-client, on(batch=True)": ours(with_batches),
    "arcp-client, async for": ours(with_async_for),
    "arcp-client, Rx pipeline": ours(with_rx),
    "arcp-client, Order.JOB, 100 jobs": ours(with_order_job, JOBS),
}


async def main() -> None:
    way, port, events = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    meter = Meter()
    await WAYS[way](f"ws://127.0.0.1:{port}/arcp", events, meter)
    assert meter.count >= events, f"{way}: {meter.count} of {events}"
    print(json.dumps(meter.report(way)))


if __name__ == "__main__":
    asyncio.run(main())
