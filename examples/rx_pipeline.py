"""The session as an Observable: filter it, and handle what is left in order."""

import argparse
import asyncio
from typing import Any

from reactivex import operators as ops

from arcp_client import Client, Event, JobContext, Runtime, events
from arcp_client.rx import concat_map_async

runtime = Runtime()


@runtime.agent("sensor")
async def sensor(input: Any, job: JobContext) -> None:
    for celsius in (18.5, 21.0, 24.5, 19.0):
        await job.log("reading")
        await job.metric("temperature", celsius, unit="celsius")


def is_warm(event: Event) -> bool:
    return isinstance(event, events.Metric) and event.value > 20


async def save(event: Event) -> str:
    await asyncio.sleep(0.01)  # a database, say; the next event waits for it
    assert isinstance(event, events.Metric)
    return f"saved {event.value}"


async def main(target: Runtime | str) -> None:
    async with Client(target) as client:
        client.notifications.pipe(ops.filter(is_warm), concat_map_async(save)).subscribe(print)
        job = await client.submit("sensor")
        await job.result()
        await client.drain()  # waits until the pipeline has processed all events


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", default=runtime)
    asyncio.run(main(parser.parse_args().url))
