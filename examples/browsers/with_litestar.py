"""Litestar: POST /jobs starts a job, GET /jobs/{id} streams it to browsers that miss nothing."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from litestar import Litestar, Request, get, post
from litestar.response import Stream

from arcp_client import Client
from arcp_client.web import SSE_HEADERS

client = Client(os.environ["ARCP_URL"])


@asynccontextmanager
async def lifespan(app: Litestar) -> AsyncIterator[None]:
    async with client:
        yield


@post("/jobs")
async def submit(agent: str) -> str:
    job = await client.submit(agent)
    job.sse()  # from now on, the client keeps the events of the job for browsers
    return job.id


@get("/jobs/{job_id:str}")
async def follow(request: Request, job_id: str) -> Stream:
    frames = await client.sse(job_id, last_event_id=request.headers.get("Last-Event-ID"))
    return Stream(frames, headers=SSE_HEADERS, media_type=SSE_HEADERS["Content-Type"])


app = Litestar([submit, follow], lifespan=[lifespan])
