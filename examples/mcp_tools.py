"""Agents as tools of MCP: an agent declares its input, and an MCP client finds and calls it.

python examples/mcp_tools.py [--url ws://127.0.0.1:7777/arcp]
"""

import asyncio
import json

from mcp import Client as McpClient
from pydantic import BaseModel, Field

from arcp_client import Client, JobContext, Runtime
from arcp_client.mcp import server


class Report(BaseModel):
    title: str = Field(description="The first line of the report.")
    pages: int = Field(default=1, ge=1)


def embedded() -> Runtime:
    runtime = Runtime()

    @runtime.agent("report", input_schema=Report, description="Writes a report.")
    async def report(input: Report, job: JobContext) -> dict[str, object]:
        for page in range(1, input.pages + 1):
            await job.progress(page, total=input.pages, units="pages")
        return {"title": input.title, "pages": input.pages}

    return runtime


async def show(current: float, total: float | None, message: str | None) -> None:
    print("progress:", message)


async def main() -> None:
    async with Client(embedded()) as client:
        bridge = server(client)
        async with McpClient(bridge) as tools:  # a program would start `arcp-client mcp` instead
            for tool in (await tools.list_tools()).tools:
                print(f"{tool.name}: {tool.description}")
            done = await tools.call_tool("report", {"title": "May", "pages": 2}, None, show)
            print(done.structured_content["status"], json.dumps(done.structured_content["result"]))
            refused = await tools.call_tool("report", {"title": "May", "pages": 0})
            print("refused:", refused.structured_content["fields"])
        await bridge.close()


if __name__ == "__main__":
    asyncio.run(main())
