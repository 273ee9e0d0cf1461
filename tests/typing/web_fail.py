"""What is refused of the dashboard's names."""

from __future__ import annotations

from aiohttp import web

from arcp_client import Client
from arcp_client.web import add_routes, ag_ui, serve, sse


async def refused(app: web.Application, client: Client) -> None:
    add_routes(client, app)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    add_routes(app, client, "/jobs")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    add_routes(app, client, token=b"t")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    serve(client, port="80")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    sse("job_1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ag_ui("job_1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
