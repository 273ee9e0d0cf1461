"""A chat with an ACP agent in a terminal, with Textual: textual_acp.py [COMMAND …]."""

import asyncio
import sys
from pathlib import Path

from textual.app import App, ComposeResult
from textual.widgets import Input, RichLog

from arcp_client.acp import AcpClient, PermissionRequest, updates

ECHO = [sys.executable, str(Path(__file__).parent / "agents" / "echo.py")]


class Chat(App[None]):
    AUTO_FOCUS = "Input"
    agent: AcpClient

    def compose(self) -> ComposeResult:
        yield RichLog(wrap=True)
        yield Input(placeholder="ask the agent")

    async def on_mount(self) -> None:
        self.session = await self.agent.new_session()
        self.session.on(updates.AgentMessageChunk, updates.ToolCall)(self.show)

    def write(self, line: str) -> None:
        self.query_one(RichLog).write(line)

    async def show(self, update: updates.AgentMessageChunk | updates.ToolCall) -> None:
        match update:  # one at a time, in the order of the session
            case updates.AgentMessageChunk(content=updates.Text(text=text)):
                self.write(f"agent: {text}")
            case updates.ToolCall(title=title):
                self.write(f"tool: {title}")

    async def allow(self, request: PermissionRequest) -> bool:
        self.write(f"allowed: {request.tool_call.title}")  # ask with a ModalScreen here
        return True

    async def on_input_submitted(self, event: Input.Submitted) -> None:
        event.input.clear()
        self.write(f"you: {event.value}")
        self.run_worker(self.session.prompt(event.value))  # the window stays responsive


async def main() -> list[str]:
    chat = Chat()
    async with AcpClient(sys.argv[1:] or ECHO, on_permission=chat.allow) as chat.agent:
        if sys.stdout.isatty():
            await chat.run_async()
            return []
        async with chat.run_test() as pilot:  # no terminal: a program drives the window
            await pilot.press(*"hello", "enter")
            await chat.workers.wait_for_complete()
            return [line.text.rstrip() for line in chat.query_one(RichLog).lines]


print(*asyncio.run(main()), sep="\n")
