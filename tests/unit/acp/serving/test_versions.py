"""Version 2 of the protocol, a draft: every message fits the schema that the npm SDK publishes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from arcp_client import Client, Runtime
from arcp_client.acp import serve
from arcp_client.transports import memory_pair
from tests.unit.acp.kit import chunk, notification
from tests.unit.acp.serving.kit import Talker, hosted

SDK = Path(__file__).parents[4] / "build" / "npm" / "node_modules" / "@agentclientprotocol" / "sdk"
SCHEMA = SDK / "schema" / "v2" / "schema.json"
INFO = {"name": "editor", "version": "1"}
OPTIONS = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]


class Newer:
    """An editor of version 2, by hand."""

    def __init__(self, far: Any) -> None:
        self._far = far
        self._number = 0
        self._schema: Any = None
        self.shown: list[dict[str, Any]] = []

    def check(self, name: str, value: Any) -> None:
        if not SCHEMA.exists():
            return
        jsonschema = pytest.importorskip("jsonschema")
        self._schema = self._schema or json.loads(SCHEMA.read_text(encoding="utf-8"))
        whole = {"$ref": f"#/$defs/{name}", "$defs": self._schema["$defs"]}
        jsonschema.Draft202012Validator(whole).validate(value)

    async def read(self) -> dict[str, Any]:
        """The next message that is no update; a permission is given."""
        while True:
            message: dict[str, Any] = json.loads(await self._far.receive())
            if message.get("method") == "session/update":
                self.check("UpdateSessionNotification", message["params"])
                self.shown.append(message["params"]["update"])
            elif message.get("method") == "session/request_permission":
                self.check("RequestPermissionRequest", message["params"])
                outcome = {"outcome": "selected", "optionId": "yes"}
                await self._send({"id": message["id"], "result": {"outcome": outcome}})
            else:
                return message

    async def _send(self, message: dict[str, Any]) -> None:
        await self._far.send(json.dumps({"jsonrpc": "2.0", **message}).encode())

    async def call(self, method: str, of: str, **params: Any) -> Any:
        self._number += 1
        await self._send({"id": self._number, "method": method, "params": params})
        answer = await self.read()
        assert answer["id"] == self._number
        if "error" in answer:
            return answer["error"]
        self.check(of, answer["result"])
        return answer["result"]

    async def until_idle(self) -> dict[str, Any]:
        """Read up to the end of the turn."""
        while self.shown[-1].get("state") != "idle":
            reading = asyncio.ensure_future(self.read())
            while self.shown[-1].get("state") != "idle" and not reading.done():
                await asyncio.sleep(0)
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
        return self.shown[-1]


@asynccontextmanager
async def newer(runtime: Runtime) -> AsyncIterator[Newer]:
    near, far = memory_pair()
    async with Client(runtime) as client:
        server = asyncio.get_running_loop().create_task(
            serve(client, "acp", transport=near, cwd="/")
        )
        editor = Newer(far)
        told = await editor.call("initialize", "InitializeResponse", protocolVersion=2, info=INFO)
        assert told["protocolVersion"] == 2
        try:
            yield editor
        finally:
            server.cancel()
            await asyncio.gather(server, return_exceptions=True)
            await far.close(timeout=0)


async def turn(agent: Talker, words: str) -> str:
    call = {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "Edit", "kind": "edit"}
    diff = {"type": "diff", "path": "/x", "oldText": "a", "newText": "b"}
    plan = [{"content": "a", "priority": "high", "status": "completed"}]
    command = {"name": "web", "description": "search", "input": {"hint": "words"}}
    commands = {"sessionUpdate": "available_commands_update", "availableCommands": [command]}
    await agent.send(
        notification({"sessionUpdate": "plan", "entries": plan}),
        notification(commands),
        notification({"sessionUpdate": "current_mode_update", "currentModeId": "ask"}),
        notification({**call, "content": [diff, {"type": "terminal", "terminalId": "x"}]}),
    )
    asking = agent.request(
        "session/request_permission", sessionId="s1", toolCall={"toolCallId": "t"}, options=OPTIONS
    )
    await agent.send(asking)
    await agent.reply_to(asking)
    await agent.send(chunk("one "), chunk("two"))
    return "max_tokens"


async def test_a_turn_in_version_2_and_its_replay() -> None:
    async with hosted(turn) as (runtime, agents):
        async with newer(runtime) as first:
            opened = await first.call("session/new", "NewSessionResponse", cwd="/")
            name = {"sessionId": opened["sessionId"]}
            prompt = [{"type": "text", "text": "go"}]
            taken = await first.call("session/prompt", "PromptResponse", **name, prompt=prompt)
            end = await first.until_idle()
            assert end["stopReason"] == "max_tokens"
            kinds = [update.get("state", update["sessionUpdate"]) for update in first.shown]
            assert kinds == [
                "user_message",
                "running",
                "plan_update",
                "available_commands_update",
                "tool_call_update",
                "requires_action",
                "running",
                "agent_message_chunk",
                "agent_message_chunk",
                "idle",
            ]
            assert first.shown[0]["messageId"] == taken["messageId"]
            assert len({u["messageId"] for u in first.shown if "chunk" in u["sessionUpdate"]}) == 1
        async with newer(runtime) as second:
            given = {**name, "cwd": "/", "replayFrom": {"type": "start"}}
            await second.call("session/resume", "ResumeSessionResponse", **given)
            idle = {"sessionUpdate": "state_update", "state": "idle"}
            assert second.shown == [*first.shown, idle]
        async with newer(runtime) as third:
            await third.call("session/resume", "ResumeSessionResponse", **name, cwd="/")
            assert third.shown == [idle]
            odd = {**name, "cwd": "/", "replayFrom": {"type": "middle"}}
            refused = await third.call("session/resume", "ResumeSessionResponse", **odd)
            assert refused["code"] == -32602
            listed = await third.call("session/list", "ListSessionsResponse")
            assert [one["sessionId"] for one in listed["sessions"]] == [name["sessionId"]]
        assert len(agents.made) == 1
