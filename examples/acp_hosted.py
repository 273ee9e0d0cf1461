"""Host an ACP agent in a runtime: its prompts are jobs, bounded by a lease, and can be resumed."""

import argparse
import asyncio
import sys
from pathlib import Path

from arcp_client import Client, Lease, Runtime, events
from arcp_client.acp import host

AGENT = [sys.executable, str(Path(__file__).parent / "agents" / "echo.py")]

runtime = Runtime()
runtime.agent("echo")(host(AGENT))


async def main(target: Runtime | str) -> None:
    async with runtime, Client(target) as client:
        job = await client.submit("echo", "hello", lease=Lease({"fs.read": ["/**"]}))
        async for event in job:
            match event:
                case events.ToolCall(args=args):
                    print("calls:", args["title"])
                case events.ToolResult(error=error) if error:
                    print("the lease does not cover it")
        print("result:", (await job.result()).value)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", default=runtime)
    asyncio.run(main(parser.parse_args().url))
