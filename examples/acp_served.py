"""An editor's agent that outlives the editor: the next one sees the session, and is asked again."""

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from arcp_client import Runtime
from arcp_client.acp import AcpClient, AcpSession, PermissionRequest, host, updates
from arcp_client.errors import ClientClosed

ACP_SERVE = [sys.executable, "-m", "arcp_client.cli", "acp-serve", "echo", "--cwd", "."]
ONCE = {"x-vendor.arcp-client.prompt_id": "my first prompt"}

runtime = Runtime()
runtime.agent("echo")(host([sys.executable, str(Path(__file__).parent / "agents" / "echo.py")]))


@asynccontextmanager
async def editor(url: str, asked: asyncio.Event, answer: str | None) -> AsyncIterator[AcpClient]:
    async def permission(request: PermissionRequest) -> str:
        print("is asked:", request.tool_call.title)
        asked.set()
        return answer or await asyncio.get_running_loop().create_future()

    async with AcpClient([*ACP_SERVE, "--url", url], on_permission=permission) as client:

        @client.on(updates.UserMessageChunk, updates.AgentMessageChunk)
        def show(update: updates.UserMessageChunk | updates.AgentMessageChunk) -> None:
            print("shows:", repr(update.content.text))

        yield client


async def prompt(session: AcpSession) -> None:
    with suppress(ClientClosed):  # the editor is gone, and the job continues
        print("the turn:", (await session.prompt("hello", meta=ONCE)).stop_reason)


async def edit(url: str) -> None:
    async with asyncio.TaskGroup() as tasks, editor(url, asked := asyncio.Event(), None) as first:
        session = await first.new_session()
        tasks.create_task(prompt(session))
        await asked.wait()
    print("-- the editor is gone; the next one loads the session")
    async with editor(url, asked, "yes") as second:
        await prompt(await second.load_session(session.id))


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--url")
    async with runtime, runtime.serve("127.0.0.1", 0) as server:
        await edit(parser.parse_args().url or server.url)


if __name__ == "__main__":
    asyncio.run(main())
