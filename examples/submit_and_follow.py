"""Submit a job to an agent and follow its events, in order, to the result."""

import argparse
import asyncio
from typing import Any

from arcp_client import Client, JobContext, Runtime, events

runtime = Runtime()


@runtime.agent("code-refactor", version="2.0.0")
async def refactor(input: dict[str, Any], job: JobContext) -> dict[str, int]:
    for n in range(1, 4):
        async with job.tool("edit", {"file": f"{input['path']}module_{n}.py"}):
            await asyncio.sleep(0.01)
        await job.progress(n, total=3)
    return {"files": 3}


async def main(target: Runtime | str) -> None:
    async with Client(target) as client:
        job = await client.submit("code-refactor@2.0.0", {"path": "src/"})
        async for event in job:
            match event:
                case events.ToolCall(tool=tool, args=args):
                    print("→", tool, args["file"])
                case events.Progress(current=n, total=total):
                    print(n, "/", total)
        print((await job.result()).value)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", default=runtime)
    asyncio.run(main(parser.parse_args().url))
