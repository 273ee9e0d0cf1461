"""A front end: run this file, and open http://127.0.0.1:8000/ in a browser."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

from aiohttp import web

from arcp_client import Client, JobContext, Runtime, errors
from arcp_client.web import SSE_HEADERS

runtime = Runtime()


@runtime.agent("travel")
async def travel(input: str, job: JobContext) -> str:
    for n, step in enumerate(("flights", "hotels", "trains"), 1):
        async with job.tool("search", {"for": f"{step} to {input}"}):
            await asyncio.sleep(1)
            await job.progress(n, total=3)
    return f"Take the night train to {input}."


client = Client(os.environ.get("ARCP_URL", runtime), token=os.environ.get("ARCP_TOKEN"))


async def lifespan(app: web.Application) -> AsyncIterator[None]:
    async with runtime, client:
        yield


async def page(request: web.Request) -> web.FileResponse:
    return web.FileResponse(Path(__file__).with_name("front_end.html"))


async def submit(request: web.Request) -> web.Response:
    order = await request.json()
    try:
        job = await client.submit(order["agent"], order["input"], idempotency_key=order["key"])
    except errors.RequestError as error:
        return web.json_response({"error": str(error.message)}, status=400)
    return web.json_response({"id": job.id})


async def follow(request: web.Request) -> web.Response:
    try:
        last = request.headers.get("Last-Event-ID") or request.query.get("after")
        frames = await client.sse(request.match_info["id"], last_event_id=last)
    except errors.RequestError as error:
        raise web.HTTPNotFound(text=str(error.message)) from error
    return web.Response(body=frames, headers=SSE_HEADERS)


app = web.Application()
app.cleanup_ctx.append(lifespan)
app.add_routes([web.get("/", page), web.post("/jobs", submit), web.get("/jobs/{id}", follow)])

if __name__ == "__main__":
    web.run_app(app, host="127.0.0.1", port=int(os.environ.get("PORT", "8000")))
