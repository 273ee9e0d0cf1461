"""Quart: POST /jobs starts a job, GET /jobs/{id} streams it to browsers that miss nothing."""

import os
from collections.abc import AsyncIterator

from quart import Quart, Response, jsonify, request

from arcp_client import Client
from arcp_client.web import SSE_HEADERS

client = Client(os.environ["ARCP_URL"])
app = Quart(__name__)


@app.while_serving
async def lifespan() -> AsyncIterator[None]:
    async with client:
        yield


@app.post("/jobs")
async def submit() -> Response:
    job = await client.submit(request.args["agent"])
    job.sse()  # from now on, the client keeps the events of the job for browsers
    return jsonify(job.id)


@app.get("/jobs/<job_id>")
async def follow(job_id: str) -> Response:
    frames = await client.sse(job_id, last_event_id=request.headers.get("Last-Event-ID"))
    response = Response(frames, headers=SSE_HEADERS)
    response.timeout = None  # otherwise Quart ends it after a minute
    return response
