"""A runtime with a scripted agent, and the dashboard of a client of that runtime."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from playwright.async_api import Page
from tenacity import wait_fixed

from arcp_client import Client, Job, JobContext, Reconnect, Runtime
from arcp_client.errors import JobFailed
from arcp_client.testing import FaultyProxy
from arcp_client.web import Server, serve

ROOT = Path(__file__).parents[3]
STATIC = ROOT / "arcp_client" / "web" / "static"

RETRY = 1.0
"""Seconds between the client's tries to come back; long enough for a page to be seen counting."""


class Puppet:
    """A job whose agent says what the test says."""

    def __init__(self, job: Job, context: JobContext, end: asyncio.Future[Any]) -> None:
        self.id = job.id
        self.job = job
        self.says = context
        self._end = end

    async def lines(self, first: int, last: int) -> None:
        """Say "line n" for each n."""
        for n in range(first, last + 1):
            await self.says.log(f"line {n}")

    async def finish(self, value: Any = None) -> None:
        """End well."""
        self._end.set_result(value)
        await self.job.result()

    def fail(self, code: str, message: str) -> None:
        """End badly."""
        self._end.set_exception(JobFailed(message, code=code))


class Site:
    """The dashboard of a client whose link can be cut.

    Attributes:
        url: where the dashboard is.
    """

    def __init__(self, *, linked: bool, **options: Any) -> None:
        self.linked = linked
        self._options = options
        self._contexts: dict[str, asyncio.Future[tuple[JobContext, asyncio.Future[Any]]]] = {}
        self.server: Server | None = None
        self.url = ""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Site]:
        """The runtime, the link, the client and its dashboard."""
        async with AsyncExitStack() as stack:
            self._stack = await stack.enter_async_context(AsyncExitStack())
            runtime_of = self._stack.enter_async_context
            self.runtime = await runtime_of(Runtime(name="atelier", version="1.4"))
            self._agents()
            if self.linked:
                runtime = await runtime_of(self.runtime.serve())
                self._port = runtime.port
                self.proxy = await stack.enter_async_context(FaultyProxy(runtime.url))
                target: Any = self.proxy.url
            else:
                target = self.runtime
            client = Client(target, reconnect=Reconnect(wait=wait_fixed(RETRY)))
            self.client = await stack.enter_async_context(client)
            await self.start()
            yield self
            await self.stop()

    async def start(self, port: int = 0) -> None:
        """Serve the dashboard."""
        options = {"allow_control": True, **self._options}
        self.server = await serve(self.client, port=port, **options).__aenter__()
        self.url = self.server.url

    async def stop(self) -> None:
        """End the dashboard's server, and nothing else."""
        if self.server is not None:
            await self.server.close()
            self.server = None

    async def restart(self) -> None:
        """A new server in the old one's place: it has forgotten all that the old one held."""
        assert self.server is not None
        port = self.server.port
        await self.stop()
        await self.start(port)

    async def replace_runtime(self) -> None:
        """End the runtime, and begin one in its place that has none of its jobs."""
        await self._stack.aclose()
        self.runtime = await self._stack.enter_async_context(Runtime(name="atelier", version="1.5"))
        self._agents()
        await self._stack.enter_async_context(self.runtime.serve(port=self._port))

    def _agents(self) -> None:
        for name, version in (("puppet", "1.2.0"), ("mason", "0.9.1"), ("scribe", None)):
            self.runtime.agent(name, version=version)(self._obey)

    async def _obey(self, _input: Any, job: JobContext) -> Any:
        end: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._context(job.id).set_result((job, end))
        return await end

    def _context(self, job_id: str) -> asyncio.Future[Any]:
        if job_id not in self._contexts:
            self._contexts[job_id] = asyncio.get_running_loop().create_future()
        return self._contexts[job_id]

    async def submit(self, agent: str = "puppet", input: Any = None, **options: Any) -> Puppet:
        """A job of the dashboard's own client."""
        return await self.puppet(await self.client.submit(agent, input, **options))

    async def puppet(self, job: Job) -> Puppet:
        """The puppet of a job, once it runs."""
        async with asyncio.timeout(10):
            context, end = await self._context(job.id)
        return Puppet(job, context, end)

    def job_url(self, job_id: str) -> str:
        """The address of a job's page."""
        return f"{self.url}#/job/{job_id}"


ROWS = """async () => {
    const view = document.querySelector('.log');
    const list = view.querySelector('.rows');
    const found = new Map();
    const frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    const take = () => { for (const li of list.children) found.set(Number(li.getAttribute('aria-posinset')), li.querySelector('.what').textContent); };
    const before = view.scrollTop;
    for (let top = 0; ; top += view.clientHeight) {
        view.scrollTop = top;
        await frame();
        take();
        if (top + view.clientHeight >= view.scrollHeight) break;
    }
    view.scrollTop = before;
    await frame();
    return [...found].sort((a, b) => a[0] - b[0]).map(([, text]) => text);
}"""  # noqa: E501


async def all_rows(page: Page) -> list[str]:
    """The text of every row of the timeline, by scrolling through all of it."""
    found: list[str] = await page.evaluate(ROWS)
    return found


def lines(first: int, last: int) -> list[str]:
    """What `Puppet.lines` leaves in the timeline."""
    return [f"line {n}" for n in range(first, last + 1)]
