"""Two runtimes behind one address that share no log: what the docs say of idempotency keys."""

from __future__ import annotations

from typing import Any

from tenacity import wait_fixed

from arcp_client import Client, JobContext, Reconnect, Runtime
from arcp_client.testing import VirtualClock
from arcp_client.transports.base import Transport


class Balancer:
    """Leads the first link to the first runtime, and so on; later ones to the last."""

    target = "test://balancer"

    def __init__(self, *runtimes: Runtime) -> None:
        self._runtimes = runtimes
        self.links: list[Transport] = []

    async def connect(self) -> Transport:
        runtime = self._runtimes[min(len(self.links), len(self._runtimes) - 1)]
        self.links.append(await runtime.connect())
        return self.links[-1]


async def test_a_key_is_known_to_the_runtime_that_took_the_job_in_only(clock: VirtualClock) -> None:
    ran: list[str] = []

    def runtime(name: str) -> Runtime:
        made = Runtime(name=name)

        @made.agent("once")
        async def once(input: Any, job: JobContext) -> str:
            ran.append(name)
            return name

        return made

    async with runtime("a") as a, runtime("b") as b:
        balancer = Balancer(a, b)
        policy = Reconnect(wait=wait_fixed(0.1))
        async with Client(balancer, reconnect=policy) as client:
            first = await client.submit("once", idempotency_key="key")
            assert (await first.result()).value == "a"
            again = await client.submit("once", idempotency_key="key")
            assert (await again.result()).value == "a"
            assert ran == ["a"]
            await balancer.links[-1].close(timeout=0.0)
            await clock.advance(5.0)
            await client.connected()
            moved = await client.submit("once", idempotency_key="key")
            assert (await moved.result()).value == "b"
    assert ran == ["a", "b"]
