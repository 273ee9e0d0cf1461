"""Talk to an agent of the Agent Client Protocol: its updates in order, its questions answered."""

import asyncio
import sys
from pathlib import Path

from arcp_client.acp import AcpClient, LocalFiles, PermissionRequest, updates

AGENT = [sys.executable, str(Path(__file__).parent / "agents" / "echo.py")]


async def ask(request: PermissionRequest) -> bool:
    print("may it?", request.tool_call.title)  # the handlers of the updates before have ended
    return True


async def main() -> None:
    async with AcpClient(AGENT, on_permission=ask, fs=LocalFiles(".")) as agent:
        session = await agent.new_session()

        @session.on(updates.AgentMessageChunk)
        async def show(chunk: updates.AgentMessageChunk) -> None:
            await asyncio.sleep(0.01)  # the next update waits for this one
            match chunk.content:
                case updates.Text(text=text):
                    print("agent:", text)

        @session.on(updates.ToolCall, updates.ToolCallUpdate)
        async def tool(update: updates.ToolCall | updates.ToolCallUpdate) -> None:
            print("tool:", session.state.tool_calls[update.tool_call_id].status)

        turn = await session.prompt("hello")  # returns when all of the above has been handled
        print("ended:", turn.stop_reason)


asyncio.run(main())
