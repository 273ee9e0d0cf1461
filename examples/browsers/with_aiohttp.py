"""aiohttp: POST /jobs starts a job, GET /jobs/{id} streams it to browsers that miss nothing."""

import os
from collections.abc import AsyncIterator

from aiohttp import web

from arcp_client import Client
from arcp_client.web import SSE_HEADERS

client = Client(os.environ["ARCP_URL"])


async def lifespan(app: web.Application) -> AsyncIterator[None]:
    async with client:
        yield


async def submit(request: web.Request) -> web.Response:
    job = await client.submit(request.query["agent"])
    job.sse()  # from now on, the client keeps the events of the job for browsers
    return web.json_response(job.id)


async def follow(request: web.Request) -> web.Response:
    last = request.headers.get("Last-Event-ID")
    frames = await client.sse(request.match_info["job_id"], last_event_id=last)
    return web.Response(body=frames, headers=SSE_HEADERS)


app = web.Application()
app.cleanup_ctx.append(lifespan)
app.add_routes([web.post("/jobs", submit), web.get("/jobs/{job_id}", follow)])

if __name__ == "__main__":
    web.run_app(app, host="127.0.0.1", port=int(os.environ["PORT"]))
