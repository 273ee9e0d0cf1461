"""Retry what can succeed later; an idempotency key keeps an attempt from running twice."""

import asyncio
from typing import Any

import tenacity

from arcp_client import Client, JobContext, Runtime, errors

runtime = Runtime()
calls: list[str] = []


@runtime.agent("flaky")
async def flaky(input: str, job: JobContext) -> str:
    calls.append(job.id)
    if len(calls) < 3:
        raise errors.JobFailed("the model is overloaded", code="UNAVAILABLE", retryable=True)
    if input == "nonsense":
        raise errors.JobFailed("no such city", code="INVALID_REQUEST", retryable=False)
    return f"sunny in {input}"


def can_succeed_later(error: BaseException) -> bool:
    match error:
        case errors.JobFailed(retryable=retryable):
            return retryable  # the agent or the runtime says so
        case errors.RequestTimeout() | errors.LinkError():
            return True  # the same key finds the job if it was started
    return False


async def ask(client: Client, city: str) -> Any:
    retry = tenacity.retry_if_exception(can_succeed_later)
    wait = tenacity.wait_random_exponential(0.01, max=10)
    stop = tenacity.stop_after_attempt(5)
    failures = 0
    async for attempt in tenacity.AsyncRetrying(retry=retry, wait=wait, stop=stop, reraise=True):
        with attempt:
            key = f"weather/{city}/{failures}"
            try:
                job = await client.submit("flaky", city, idempotency_key=key)
                return (await job.result()).value
            except errors.JobFailed:
                failures += 1  # that job has ended; the next attempt needs a new one
                raise


async def main() -> None:
    async with Client(runtime) as client:
        print(await ask(client, "Oslo"), "after", len(calls), "jobs")
        try:
            await ask(client, "nonsense")
        except errors.JobFailed as error:
            print("given up:", error.message)


asyncio.run(main())
