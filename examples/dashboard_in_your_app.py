"""Your own web application: the dashboard under a path of it, and a page that follows one job."""

import asyncio
import json
from typing import Any

import aiohttp
from aiohttp import web

from arcp_client import Client, JobContext, Runtime
from arcp_client.web import add_routes, ag_ui, sse

CLIENT = web.AppKey("client", Client)
runtime = Runtime()


@runtime.agent("baker")
async def baker(input: Any, job: JobContext) -> str:
    for n in range(1, input + 1):
        await job.progress(n, total=input, units="loaves")
    return f"{input} loaves"


async def follow(request: web.Request) -> web.StreamResponse:  # for new EventSource("/follow/…")
    if (job := request.app[CLIENT].job(request.match_info["id"])) is None:
        raise web.HTTPNotFound
    return sse(job)


async def main() -> None:
    client = Client(runtime)
    app = web.Application()
    app.router.add_get("/follow/{id}", follow)
    add_routes(app, client, prefix="/dashboard")
    app[CLIENT] = client
    runner = web.AppRunner(app)
    async with client:
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        base = f"http://127.0.0.1:{runner.addresses[0][1]}"
        job = await client.submit("baker", 3)
        await visit(base, job.id)
        async for event in ag_ui(job):
            print("AG-UI:", event.type.value)
        await runner.cleanup()


async def visit(base: str, job_id: str) -> None:
    """What a browser would do."""
    async with aiohttp.ClientSession(base) as http:
        async with http.get("/dashboard/") as page:
            print("the dashboard:", page.status, page.content_type)
        async with http.get(f"/follow/{job_id}") as stream:
            async for line in stream.content:
                if line.startswith(b"data: ["):
                    for entry in json.loads(line[6:]):
                        print("event", entry["n"], entry["event"]["kind"])


asyncio.run(main())
