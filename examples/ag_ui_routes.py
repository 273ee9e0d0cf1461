"""Serve an agent over AG-UI, and send the requests of a front end. The agent asks a question."""

import asyncio
import json
from typing import Any

import aiohttp
from aiohttp import web

from arcp_client import Client, JobContext, Runtime
from arcp_client.web import add_ag_ui_routes

runtime = Runtime()


@runtime.agent("deployer")
async def deployer(input: Any, job: JobContext) -> str:  # the input is the request of the run
    await job.status("deploying", message=input["messages"][-1]["content"])
    answer = await job.ask("To production?", options=["yes", "no"])
    return f"production: {answer}"


async def run(http: aiohttp.ClientSession, **request: Any) -> dict[str, Any]:
    """What ``HttpAgent`` does; returns the last event of the run."""
    async with http.post("/agents/deployer", json=request) as response:
        async for line in response.content:
            if line.startswith(b"data: "):
                event: dict[str, Any] = json.loads(line[6:])
                print(request["runId"], event["type"])
    return event


async def main() -> None:
    client = Client(runtime)
    app = web.Application()
    add_ag_ui_routes(app, client, "deployer", path="/agents/deployer")
    runner = web.AppRunner(app)
    async with client:
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        base = f"http://127.0.0.1:{runner.addresses[0][1]}"
        message = {"id": "1", "role": "user", "content": "the new version"}
        async with aiohttp.ClientSession(base) as http:
            last = await run(http, threadId="t", runId="r1", messages=[message])
            [asked] = last["outcome"]["interrupts"]
            print("?", asked["message"], asked["responseSchema"])
            answer = {"interruptId": asked["id"], "status": "resolved", "payload": "yes"}
            last = await run(http, threadId="t", runId="r2", messages=[message], resume=[answer])
            print("=", last["result"])
        await runner.cleanup()


asyncio.run(main())
