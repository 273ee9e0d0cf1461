"""A runtime and the dashboard of its jobs in one ASGI application: `uvicorn mounted:app`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.routing import Mount, WebSocketRoute

from arcp_client import Client, JobContext, Runtime
from arcp_client.web import asgi_app

runtime = Runtime()
client = Client(runtime)


@runtime.agent("baker")
async def baker(input: int, job: JobContext) -> str:
    for n in range(1, input + 1):
        await job.progress(n, total=input, units="loaves")
    return f"{input} loaves"


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    async with runtime, client:
        yield


app = Starlette(
    lifespan=lifespan,
    routes=[
        WebSocketRoute("/arcp", runtime.asgi()),
        Mount("/dashboard", asgi_app(client, allow_control=True)),
    ],
)
