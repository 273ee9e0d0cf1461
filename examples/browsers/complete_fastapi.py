"""FastAPI: with_fastapi.py with input, idempotency key, position, token and error statuses."""

import os
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Body, FastAPI, Header, HTTPException
from fastapi.responses import StreamingResponse

from arcp_client import Client, errors
from arcp_client.web import SSE_HEADERS


@asynccontextmanager
async def lifespan(app: FastAPI):
    async with client:
        yield


client = Client(os.environ["ARCP_URL"], token=os.environ.get("ARCP_TOKEN"))
app = FastAPI(lifespan=lifespan)


@app.post("/jobs")
async def submit(
    agent: str,
    input: Annotated[Any, Body()] = None,
    idempotency_key: str | None = Header(None),
) -> str:
    try:
        job = await client.submit(agent, input, idempotency_key=idempotency_key)
    except errors.RequestError as error:  # no such agent, an invalid input, the key of another job
        raise HTTPException(400, str(error.message)) from error
    job.sse()  # from now on, the client keeps the events of the job for browsers
    return job.id


@app.get("/jobs/{job_id}")
async def follow(
    job_id: str, after: str | None = None, last_event_id: str | None = Header(None)
) -> StreamingResponse:
    try:
        frames = await client.sse(job_id, last_event_id=last_event_id or after)
    except errors.JobNotFound as error:
        raise HTTPException(404, str(error.message)) from error
    except errors.PermissionDenied as error:
        raise HTTPException(403, str(error.message)) from error
    return StreamingResponse(frames, headers=SSE_HEADERS)
