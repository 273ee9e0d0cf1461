"""An agent with a checked input, that fails on purpose and ends cleanly when it is cancelled.

python examples/write_an_agent.py [--url ws://127.0.0.1:7777/arcp]
"""

import argparse
import asyncio
from typing import Any

from pydantic import BaseModel

from arcp_client import Client, JobContext, Runtime, errors, events

runtime = Runtime()


class Order(BaseModel):
    pages: int


@runtime.agent("printer", version="1.0.0", description="Prints pages.", input_schema=Order)
async def printer(order: Order, job: JobContext) -> dict[str, int]:
    if order.pages > 1000:
        raise errors.JobFailed("out of paper", code="NO_PAPER", retryable=True)
    for page in range(1, order.pages + 1):
        if job.cancelled.is_set():  # using it gives the agent 5 s to end by itself
            return {"printed": page - 1}
        await job.progress(page, total=order.pages, units="pages")
        await asyncio.sleep(0.01)
    return {"printed": order.pages}


async def value_of(client: Client, agent: str, input: Any) -> Any:
    try:
        return (await (await client.submit(agent, input)).result()).value
    except errors.ArcpError as error:
        return f"{type(error).__name__}: {getattr(error, 'code', '')}"


async def main(target: Runtime | str) -> None:
    async with runtime, Client(target) as client:
        print(await value_of(client, "printer", {"pages": 2}))
        for pages in ("many", 5000):
            print(pages, "→", await value_of(client, "printer", {"pages": pages}))

        job = await client.submit("printer", {"pages": 900})
        async for _ in job.events(events.Progress):
            await job.cancel("the reader has left")
            break
        try:
            await job.result()
        except errors.JobCancelled as error:
            print("cancelled:", error.message)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", default=runtime)
    asyncio.run(main(parser.parse_args().url))
