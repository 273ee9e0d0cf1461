"""FastAPI: routes that start a job and stream it; a browser that reconnects misses nothing.

python examples/fastapi_stream.py [--url ws://127.0.0.1:7777/arcp]
"""

import argparse
import asyncio

import httpx
from fastapi import FastAPI, Header
from fastapi.responses import StreamingResponse

from arcp_client import Client, JobContext, Runtime
from arcp_client.web import SSE_HEADERS

runtime = Runtime()


@runtime.agent("count")
async def count(input: dict[str, int], job: JobContext) -> None:
    for n in range(input["to"]):
        await job.progress(n + 1, total=input["to"])


def service(client: Client) -> FastAPI:
    app = FastAPI()

    @app.post("/jobs")
    async def submit(agent: str, to: int) -> str:
        return (await client.submit(agent, {"to": to})).id

    @app.get("/jobs/{job_id}")
    async def follow(job_id: str, last_event_id: str | None = Header(None)) -> StreamingResponse:
        frames = await client.sse(job_id, last_event_id=last_event_id)
        return StreamingResponse(frames, headers=SSE_HEADERS)

    return app


async def main(target: Runtime | str) -> None:
    async with runtime, Client(target) as client:
        transport = httpx.ASGITransport(service(client))  # in place of a server and a browser
        async with httpx.AsyncClient(transport=transport, base_url="http://service") as page:
            job_id = (await page.post("/jobs?agent=count&to=3")).json()
            stream = (await page.get(f"/jobs/{job_id}")).text
            ids = [line[4:] for line in stream.splitlines() if line.startswith("id: ")]
            print("positions:", len(ids) > 0, "· ended:", "event: end" in stream)

            headers = {"Last-Event-ID": ids[-1]}  # as a browser sends it
            again = (await page.get(f"/jobs/{job_id}", headers=headers)).text
            print("again after the last position:", again.count("event: events"), "batches")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", default=runtime)
    asyncio.run(main(parser.parse_args().url))
