"""FastAPI: POST /jobs starts a job, GET /jobs/{id} streams it to browsers that miss nothing."""

import os
from contextlib import asynccontextmanager

from fastapi import FastAPI, Header
from fastapi.responses import StreamingResponse

from arcp_client import Client
from arcp_client.web import SSE_HEADERS


@asynccontextmanager
async def lifespan(app: FastAPI):
    async with client:
        yield


client = Client(os.environ["ARCP_URL"])
app = FastAPI(lifespan=lifespan)


@app.post("/jobs")
async def submit(agent: str) -> str:
    job = await client.submit(agent)
    job.sse()  # from now on, the client keeps the events of the job for browsers
    return job.id


@app.get("/jobs/{job_id}")
async def follow(job_id: str, last_event_id: str | None = Header(None)) -> StreamingResponse:
    frames = await client.sse(job_id, last_event_id=last_event_id)
    return StreamingResponse(frames, headers=SSE_HEADERS)
