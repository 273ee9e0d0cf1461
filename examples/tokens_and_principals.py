"""Principals: who may connect, who owns a job, who may watch it; tokens that are renewed."""

import asyncio
import logging

from arcp_client import Client, JobContext, Observation, Runtime, errors

TOKENS = {"secret-of-ada": "ada", "secret-of-bob": "bob", "secret-of-eve": "eve"}


async def principal_of(token: str) -> str | None:
    return TOKENS.get(token)  # None refuses the client; a database or a JWT library could decide


def may_watch(observation: Observation) -> bool:
    return observation.observer == "bob" and observation.agent == "hello"


runtime = Runtime(auth=principal_of, policy=may_watch)


@runtime.agent("hello")
async def hello(input: None, job: JobContext) -> str:
    return "hello"


def renewed() -> str:
    return "secret-of-eve"  # called for each link, and once more after UNAUTHENTICATED


async def main() -> None:
    logging.getLogger("arcp_client.runtime").setLevel(logging.ERROR)  # it warns of refused tokens
    async with runtime:
        try:
            async with Client(runtime, token="guessed"):
                pass
        except errors.Unauthenticated:
            print("a guessed token is refused")

        async with Client(runtime, token="secret-of-ada") as ada:
            job = await ada.submit("hello")
            print("ada:", (await job.result()).value)

            async with Client(runtime, token="secret-of-bob") as bob:
                view = await bob.watch(job.id, history=True)
                print("bob may watch:", (await view.result()).value)

            async with Client(runtime, token=renewed) as eve:
                try:
                    await eve.watch(job.id)
                except errors.RequestError as error:
                    print("eve may not:", error.code)


asyncio.run(main())
