"""Every method of the stable surface on the wire, and only if the other side has it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from arcp_client.acp import AcpClient, AcpSession, LocalFiles, LocalTerminals, schema
from arcp_client.errors import (
    ClientClosed,
    FeatureNotNegotiated,
    LocalProtocolError,
    RemoteProtocolError,
)
from tests.unit.acp.kit import FakeAgent, connected, opened

HTTP = schema.McpServerHttp(name="h", url="http://x", headers=[])
STDIO = schema.McpServerStdio(name="s", command="/bin/s", args=[], env=[])


async def answered(agent: FakeAgent, calling: Any, method: str, result: Any) -> Any:
    task = asyncio.ensure_future(calling)
    call = await agent.next(method)
    await agent.result(call, result)
    await task
    return call["params"]


async def test_calls_on_the_wire() -> None:
    async with connected(cwd="/work") as (agent, client):
        opening = client.new_session("sub", mcp_servers=[STDIO], additional_directories=["/more"])
        params = await answered(agent, opening, "session/new", {"sessionId": "s1"})
        assert params == {
            "cwd": "/work/sub",
            "mcpServers": [{"name": "s", "command": "/bin/s", "args": [], "env": []}],
            "additionalDirectories": ["/more"],
        }
        session = client.session("s1")
        params = await answered(agent, session.load(), "session/load", None)
        assert params == {"sessionId": "s1", "cwd": "/work/sub", "mcpServers": []}
        params = await answered(agent, session.resume("/x"), "session/resume", {})
        assert params["cwd"] == "/x"
        params = await answered(agent, session.set_mode("plan"), "session/set_mode", None)
        assert params == {"sessionId": "s1", "modeId": "plan"}
        option = {"id": "fast", "name": "Fast", "type": "boolean", "currentValue": True}
        setting = session.set_config_option("fast", True)
        params = await answered(
            agent, setting, "session/set_config_option", {"configOptions": [option]}
        )
        assert params == {"sessionId": "s1", "configId": "fast", "value": True, "type": "boolean"}
        assert session.state.options[0].current_value is True  # type: ignore[union-attr]
        params = await answered(agent, client.authenticate("key"), "authenticate", {})
        assert params == {"methodId": "key"}
        assert await answered(agent, client.logout(), "logout", {}) == {}
        params = await answered(agent, client.delete_session("s9"), "session/delete", {})
        assert params == {"sessionId": "s9"}
        params = await answered(agent, session.close(), "session/close", {})
        assert params == {"sessionId": "s1"}
        await client.notify("_x/y", {"a": 1})
        assert await agent.next() == {"jsonrpc": "2.0", "method": "_x/y", "params": {"a": 1}}


async def test_prompts_on_the_wire() -> None:
    async with connected() as (agent, client):
        session = await opened(agent, client)
        image = schema.ImageContent(data="aGk=", mime_type="image/png")
        unknown = schema.UnknownContentBlock(kind="x", raw={"type": "x", "a": 1})
        prompting = session.prompt(["look", image, unknown], meta={"k": 1})
        params = await answered(agent, prompting, "session/prompt", {"stopReason": "end_turn"})
        assert params == {
            "sessionId": "s1",
            "prompt": [
                {"type": "text", "text": "look"},
                {"type": "image", "data": "aGk=", "mimeType": "image/png"},
                {"type": "x", "a": 1},
            ],
            "_meta": {"k": 1},
        }


BARE: list[Callable[[Any, Any], Any]] = [
    lambda client, session: session.load(),
    lambda client, session: session.resume(),
    lambda client, session: client.fork_session(session),
    lambda client, session: client.delete_session("s1"),
    lambda client, session: client.logout(),
    lambda client, session: anext(client.list_sessions()),
    lambda client, session: client.new_session(mcp_servers=[HTTP]),
    lambda client, session: client.new_session(additional_directories=["/x"]),
    lambda client, session: session.prompt(schema.ImageContent(data="", mime_type="image/png")),
    lambda client, session: session.prompt(schema.AudioContent(data="", mime_type="audio/wav")),
    lambda client, session: session.prompt(
        schema.EmbeddedResource(resource=schema.EmbeddedResourceResource(uri="file:///x", text=""))
    ),
]


@pytest.mark.parametrize("call", BARE)
async def test_what_the_agent_does_not_offer_is_not_asked_for(call: Any) -> None:
    async with connected(offers={}) as (agent, client):
        session = await opened(agent, client)
        with pytest.raises(FeatureNotNegotiated, match="fake does not offer"):
            await call(client, session)
        closing = asyncio.ensure_future(session.close())  # closes here alone
        await closing


async def test_lists_come_page_by_page_and_a_cursor_that_repeats_is_an_error() -> None:
    async with connected() as (agent, client):

        async def serve() -> None:
            for number, cursor in enumerate(["a", "b", "a"]):
                call = await agent.next("session/list")
                one = {"sessionId": str(number), "cwd": "/"}
                await agent.result(call, {"sessions": [one], "nextCursor": cursor})

        serving = asyncio.ensure_future(serve())
        got: list[str] = []
        with pytest.raises(RemoteProtocolError, match="same cursor twice"):
            async for one in client.list_sessions():
                got.append(one.session_id)  # noqa: PERF401  # the loop ends with an error
        assert got == ["0", "1", "2"]
        await serving


async def claims(**options: Any) -> Any:
    async with connected(**options) as (agent, _):
        return agent.seen[0]["params"]


async def test_what_is_claimed_is_what_is_served(tmp_path: Any) -> None:
    bare = await claims()
    assert bare["protocolVersion"] == 1
    assert bare["clientInfo"]["name"] == "arcp-client"
    capabilities = bare["clientCapabilities"]
    assert capabilities["fs"] == {}
    assert "terminal" not in capabilities
    assert "elicitation" not in capabilities
    assert capabilities["session"] == {
        "compaction": {},
        "configOptions": {"boolean": {}},
        "notices": {},
    }
    full = await claims(
        fs=LocalFiles(tmp_path),
        terminal=LocalTerminals(),
        on_elicitation=lambda _: None,
        capabilities=schema.ClientCapabilities(plan=schema.PlanCapabilities()),
    )
    capabilities = full["clientCapabilities"]
    assert capabilities["fs"] == {"readTextFile": True, "writeTextFile": True}
    assert capabilities["terminal"] is True
    assert capabilities["elicitation"] == {"form": {}, "url": {}}
    assert capabilities["plan"] == {}
    reading = await claims(fs=LocalFiles(tmp_path, writable=False))
    assert reading["clientCapabilities"]["fs"] == {"readTextFile": True}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"name": "x"}, {"action": "accept", "content": {"name": "x"}}),
        (True, {"action": "accept"}),
        (False, {"action": "decline"}),
        (None, {"action": "cancel"}),
    ],
)
async def test_elicitation(answer: Any, expected: Any) -> None:
    asked: list[Any] = []

    async def elicit(request: Any) -> Any:
        asked.append(request)
        return answer

    async with connected(on_elicitation=elicit) as (agent, _):
        form = agent.request(
            "elicitation/create",
            mode="form",
            message="Who?",
            requestId=5,
            requestedSchema={"type": "object", "properties": {"name": {"type": "string"}}},
        )
        await agent.send(form)
        assert (await agent.reply_to(form))["result"] == expected
        assert isinstance(asked[0], schema.CreateElicitationRequestForm)
        odd = agent.request("elicitation/create", mode="telepathy", message="?")
        await agent.send(odd)
        assert (await agent.reply_to(odd))["error"]["code"] == -32602


def test_every_stable_method_has_its_place() -> None:
    calls = {
        *("initialize", "authenticate", "logout", "session/new", "session/load", "session/list"),
        *("session/resume", "session/close", "session/delete", "session/set_mode"),
        *("session/set_config_option", "session/prompt", "session/cancel"),
    }
    served = {
        *("session/update", "session/request_permission", "fs/read_text_file"),
        *("fs/write_text_file", "terminal/create", "terminal/output", "terminal/wait_for_exit"),
        *("terminal/kill", "terminal/release", "elicitation/create", "elicitation/complete"),
        "$/cancel_request",
    }
    assert calls | served == schema.STABLE_METHODS
    assert not schema.STABLE_METHODS & schema.UNSTABLE_METHODS
    assert schema.ForkSessionRequest.unstable
    assert not schema.LoadSessionRequest.unstable
    assert schema.SubagentUpdate.unstable
    assert not schema.Notice.unstable


CALLS: dict[str, Callable[[AcpClient, AcpSession], Any]] = {
    "new_session": lambda client, _: client.new_session(),
    "load_session": lambda client, session: client.load_session(session.id),
    "request": lambda client, _: client.request("x/y", {}),
    "notify": lambda client, _: client.notify("x/y", {}),
    "wait_closed": lambda client, _: client.wait_closed(),
    "close": lambda client, _: client.close(),
    "prompt": lambda _, session: session.prompt("go"),
    "cancel": lambda _, session: session.cancel(),
    "load": lambda _, session: session.load(),
    "set_mode": lambda _, session: session.set_mode("ask"),
    "session.close": lambda _, session: session.close(),
    "updates": lambda _, session: anext(session.updates()),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_a_call_from_another_event_loop_is_refused(
    call: Callable[[AcpClient, AcpSession], Any],
) -> None:
    async with connected() as (agent, client):
        session = await opened(agent, client)

        async def elsewhere() -> None:
            async with asyncio.timeout(5.0):
                await call(client, session)

        with pytest.raises(LocalProtocolError, match="another event loop"):
            await asyncio.to_thread(asyncio.run, elsewhere())


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_d20_a_connection_whose_event_loop_has_ended_says_so(
    call: Callable[[AcpClient, AcpSession], Any],
) -> None:
    loop = asyncio.new_event_loop()
    world = connected()
    agent, client = loop.run_until_complete(world.__aenter__())
    session = loop.run_until_complete(opened(agent, client))
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    loop.close()

    async def again() -> None:
        with pytest.raises(ClientClosed, match="event loop of the connection to .* has ended"):
            await call(client, session)

    asyncio.run(again())


async def test_an_iterator_is_not_read_in_another_event_loop() -> None:
    async with connected() as (agent, client):
        updates = (await opened(agent, client)).updates()

        async def elsewhere() -> None:
            async with asyncio.timeout(5.0):
                await anext(updates)

        with pytest.raises(LocalProtocolError, match="another event loop"):
            await asyncio.to_thread(asyncio.run, elsewhere())
