"""What users write with the dashboard, and what its names give."""

from __future__ import annotations

from typing import assert_type

from ag_ui.core import BaseEvent
from aiohttp import web
from pydantic import SecretStr

from arcp_client import Client
from arcp_client.web import Server, add_routes, ag_ui, end_streams, serve, sse


async def follow(request: web.Request, client: Client) -> web.StreamResponse:
    job = client.job(request.match_info["id"])
    if job is None:
        raise web.HTTPNotFound
    return sse(job)


async def mounted(client: Client) -> None:
    app = web.Application()
    add_routes(
        app, client, prefix="/jobs", token="t", allowed_hosts=["jobs.example"], allow_control=True
    )
    add_routes(app, client, token=SecretStr("t"), secrets=[SecretStr("x"), "y"], memory=1 << 20)
    app.on_shutdown.append(end_streams)
    async with serve(client, "0.0.0.0", 7778, token="t") as server:
        assert_type(server, Server)
        assert_type(server.port, int)
    job = await client.submit("baker", 3)
    async for event in ag_ui(job, thread_id="t"):
        assert_type(event, BaseEvent)
