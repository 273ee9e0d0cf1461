"""An agent built with the official Python SDK: prompts that say what to do in, updates out."""

from __future__ import annotations

import asyncio
from typing import Any

import acp
from acp import schema


class Agent(acp.Agent):
    connection: Any
    cancelled: asyncio.Event

    def on_connect(self, conn: Any) -> None:
        self.connection = conn
        self.cancelled = asyncio.Event()

    async def initialize(self, protocol_version: int, *_: Any, **__: Any) -> Any:
        return acp.InitializeResponse(
            protocol_version=1,
            agent_info=schema.Implementation(name="py agent", version="1"),
            agent_capabilities=schema.AgentCapabilities(
                load_session=True,
                session_capabilities=schema.SessionCapabilities(
                    resume=schema.SessionResumeCapabilities(),
                    close=schema.SessionCloseCapabilities(),
                    list=schema.SessionListCapabilities(),
                    fork=schema.SessionForkCapabilities(),
                ),
            ),
        )

    async def new_session(self, cwd: str, *_: Any, **__: Any) -> Any:
        return acp.NewSessionResponse(session_id="s1")

    async def load_session(self, cwd: str, session_id: str, *_: Any, **__: Any) -> Any:
        await self.five(session_id)
        return schema.LoadSessionResponse()

    async def resume_session(self, session_id: str, *_: Any, **__: Any) -> Any:
        await self.five(session_id)
        return schema.ResumeSessionResponse()

    async def fork_session(self, session_id: str, *_: Any, **__: Any) -> Any:
        await self.five(session_id)
        return schema.ForkSessionResponse(session_id="s2")

    async def list_sessions(self, *_: Any, **__: Any) -> Any:
        return schema.ListSessionsResponse(sessions=[schema.SessionInfo(session_id="s1", cwd="/")])

    async def close_session(self, session_id: str, **_: Any) -> Any:
        return schema.CloseSessionResponse()

    async def set_session_mode(self, *_: Any, **__: Any) -> Any:
        return schema.SetSessionModeResponse()

    async def cancel(self, session_id: str, **_: Any) -> None:
        self.cancelled.set()

    async def say(self, session_id: str, words: str) -> None:
        await self.connection.session_update(session_id, acp.update_agent_message_text(words))

    async def five(self, session_id: str) -> None:
        for number in range(5):
            await self.say(session_id, str(number))

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> Any:
        word, _, argument = prompt[0].text.partition(" ")
        client = self.connection
        reason = "end_turn"
        if word == "five":
            await self.five(session_id)
        elif word == "one":
            await self.say(session_id, argument)
        elif word == "read":
            answer = await client.read_text_file(path=argument, session_id=session_id)
            await self.say(session_id, answer.content)
        elif word == "ask":
            await client.session_update(
                session_id, acp.start_tool_call("t1", "Edit", kind="edit", status="pending")
            )
            answer = await client.request_permission(
                session_id=session_id,
                tool_call=schema.ToolCallUpdate(tool_call_id="t1"),
                options=[
                    schema.PermissionOption(option_id="yes", name="Yes", kind="allow_once"),
                    schema.PermissionOption(option_id="no", name="No", kind="reject_once"),
                ],
            )
            outcome = answer.outcome
            await self.say(session_id, getattr(outcome, "option_id", None) or outcome.outcome)
        elif word == "run":
            await self.say(session_id, await self.run(session_id, argument.replace("_", " ")))
        elif word == "wait":
            await self.say(session_id, "waiting")
            await self.cancelled.wait()
            await self.say(session_id, "stopped")
            reason = "cancelled"
        elif word == "fail":
            raise RuntimeError("on purpose")
        return acp.PromptResponse(stop_reason=reason)

    async def run(self, session_id: str, line: str) -> str:
        client, of = self.connection, {"session_id": session_id}
        made = await client.create_terminal(command="sh", args=["-c", line], **of)
        terminal = {"terminal_id": made.terminal_id, **of}
        waiting = asyncio.ensure_future(client.wait_for_terminal_exit(**terminal))
        if line.startswith("sleep"):
            await client.kill_terminal(**terminal)
        done = await waiting
        out = await client.terminal_output(**terminal)
        await client.release_terminal(**terminal)
        return f"{out.output}{done.signal or done.exit_code}"


asyncio.run(acp.run_agent(Agent(), use_unstable_protocol=True))
