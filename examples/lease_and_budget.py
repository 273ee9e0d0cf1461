"""An agent that checks its lease, spends its budget, delegates, and streams its result.

python examples/lease_and_budget.py [--url ws://127.0.0.1:7777/arcp]
"""

import argparse
import asyncio
from collections.abc import AsyncIterator

from arcp_client import Client, JobContext, Lease, Runtime, errors, events

runtime = Runtime()
SECTIONS = ("Question", "Findings", "Next steps")


@runtime.agent("summarise")
async def summarise(input: str, job: JobContext) -> str:
    job.authorize("model.use", "small")  # raises PermissionDenied if the lease does not cover it
    await job.metric("cost.model", 0.30, unit="USD")  # charged to the budget
    return f"{input}: three sources agree."


@runtime.agent("report")
async def report(input: str, job: JobContext) -> AsyncIterator[str]:
    async with job.tool("search", {"query": input}) as call:  # checks tool.call
        call.result = {"hits": 3}
    yield f"# {input}\n"
    for n, title in enumerate(SECTIONS, 1):
        child = await job.delegate("summarise", title, lease=Lease({"model.use": ["small"]}))
        yield (await child.result()) + "\n"  # a chunk of the result
        await job.progress(n, total=len(SECTIONS))


async def order(client: Client, dollars: str) -> None:
    rights = {"tool.call": ["search"], "agent.delegate": ["summarise"], "model.use": ["small"]}
    lease = Lease({**rights, "cost.budget": [f"USD:{dollars}"]})
    job = await client.submit("report", "Is the bridge safe?", lease=lease)
    try:
        async for event in job:
            if isinstance(event, events.Delegate):
                print("delegated to", event.agent)
        print((await job.result()).value, end="")
    except errors.BudgetExhausted as error:
        print("ended:", error.code)


async def main(target: Runtime | str) -> None:
    async with runtime, Client(target) as client:
        for dollars in ("1.00", "0.50"):
            print(f"--- a budget of {dollars} USD")
            await order(client, dollars)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", default=runtime)
    asyncio.run(main(parser.parse_args().url))
