"""Many jobs at once: three at a time, their events handled side by side, failures collected.

python examples/many_jobs.py [--url ws://127.0.0.1:7777/arcp]
"""

import argparse
import asyncio
from collections import Counter

from arcp_client import Client, JobContext, Order, Runtime, errors, events

runtime = Runtime()


@runtime.agent("square")
async def square(input: int, job: JobContext) -> int:
    await job.log(f"squaring {input}")
    if input == 4:
        raise errors.JobFailed("four is not supported", code="INVALID_REQUEST")
    return input * input


async def main(target: Runtime | str) -> None:
    lines: Counter[str] = Counter()
    free = asyncio.Semaphore(3)  # jobs that run at a time
    async with runtime, Client(target) as client:

        @client.on(events.Log, order=Order.JOB)  # in order for each job, jobs side by side
        async def count(event: events.Log) -> None:
            lines[event.job_id] += 1

        async def run(number: int) -> int:
            async with free:
                job = await client.submit("square", number)
                return (await job.result()).value

        outcomes = await asyncio.gather(*map(run, range(1, 7)), return_exceptions=True)
        for number, outcome in enumerate(outcomes, 1):
            match outcome:
                case errors.JobFailed(code=code):
                    print(number, "failed:", code)
                case BaseException():
                    raise outcome
                case value:
                    print(number, "→", value)
        print(lines.total(), "log lines of", len(lines), "jobs")

        async for summary in client.jobs(status=["error"]):
            print("listed:", summary.agent, summary.status)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", default=runtime)
    asyncio.run(main(parser.parse_args().url))
