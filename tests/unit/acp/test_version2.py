"""Version 2 of the protocol, a draft: which version is spoken, and that handlers need not care."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcp_client.acp import AcpClient, AgentRefused, LocalFiles, schema, updates
from arcp_client.acp._base import Origin
from arcp_client.acp._version2 import ForegroundWork, UpdateReader
from arcp_client.errors import ClientClosed, FeatureNotNegotiated, LinkLost, RemoteProtocolError
from tests.unit.acp.kit import FakeAgent, chunk, notification, opened, settled, text

INFO = {"name": "newer", "version": "2"}
SESSION = {"prompt": {"image": {}}, "mcp": {"http": {}}, "delete": {}}
ANSWER = {"protocolVersion": 2, "info": INFO, "capabilities": {"session": SESSION}}
UNSUPPORTED = {"code": -32022, "message": "no", "data": {"requested": 1, "supported": [2]}}
OPTIONS = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]


def state(name: str, **more: Any) -> dict[str, Any]:
    return notification({"sessionUpdate": "state_update", "state": name, **more})


def message(kind: str, number: str, *words: str) -> dict[str, Any]:
    content = [text(each) for each in words]
    return notification({"sessionUpdate": kind, "messageId": number, "content": content})


@contextlib.asynccontextmanager
async def newer(**options: Any) -> AsyncIterator[tuple[FakeAgent, AcpClient]]:
    """A client with an agent that speaks version 2 only."""
    agent = FakeAgent()
    client = AcpClient(agent, **options)
    connecting = asyncio.ensure_future(client.connect())
    if options.get("versions", (1, 2))[0] == 1:
        await agent.refuse(await agent.next("initialize"), UNSUPPORTED)
    await agent.result(await agent.next("initialize"), ANSWER)
    await connecting
    try:
        yield agent, client
    finally:
        await client.close(drain=0)


# ---------------------------------------------------------------------- which version is spoken


async def test_version_1_is_asked_for_first_and_its_request_is_as_before() -> None:
    agent = FakeAgent()
    connecting = asyncio.ensure_future(AcpClient(agent).connect())
    call = await agent.next("initialize")
    assert set(call["params"]) == {"protocolVersion", "clientCapabilities", "clientInfo"}
    assert call["params"]["protocolVersion"] == 1
    connecting.cancel()
    await asyncio.wait({connecting})


async def test_an_agent_that_refuses_version_1_is_asked_in_version_2() -> None:
    async with newer() as (agent, client):
        first, second = (call["params"] for call in agent.seen)
        assert first["protocolVersion"] == 1
        assert second["protocolVersion"] == 2
        assert second["info"]["name"] == "arcp-client"
        assert client.protocol_version == 2
        assert client.info == schema.Implementation(**INFO)
        offers = client.capabilities
        assert offers.load_session
        assert offers.prompt_capabilities == schema.PromptCapabilities(image=True)
        assert offers.mcp_capabilities == schema.McpCapabilities(http=True)


@pytest.mark.parametrize("again", [True, False])
async def test_an_agent_that_answers_with_version_2_is_asked_again_and_may_refuse_that(
    again: bool,
) -> None:
    agent = FakeAgent()
    client = AcpClient(agent)
    connecting = asyncio.ensure_future(client.connect())
    await agent.result(await agent.next("initialize"), ANSWER)
    second = await agent.next("initialize")
    if again:
        await agent.result(second, ANSWER)
    else:
        await agent.refuse(second, {"code": -32600, "message": "already initialized"})
    await connecting
    assert client.protocol_version == 2
    await client.close(drain=0)


async def test_version_2_may_be_preferred_and_version_1_is_spoken_to_those_that_know_no_other() -> (
    None
):
    agent = FakeAgent()
    client = AcpClient(agent, versions=(2, 1))
    connecting = asyncio.ensure_future(client.connect())
    call = await agent.next("initialize")
    assert call["params"]["protocolVersion"] == 2
    assert call["params"]["info"] == call["params"]["clientInfo"]
    await agent.result(call, {"protocolVersion": 1})
    await connecting
    assert client.protocol_version == 1
    await client.close(drain=0)


@pytest.mark.parametrize("versions", [(1,), (2,), (1, 2)])
async def test_a_version_that_the_client_does_not_speak_is_an_error_with_both(
    versions: tuple[int, ...],
) -> None:
    other = 2 if versions == (1,) else 7
    agent = FakeAgent()
    connecting = asyncio.ensure_future(AcpClient(agent, versions=versions).connect())
    await agent.result(await agent.next("initialize"), {"protocolVersion": other})
    ours = " and ".join(map(str, versions))
    with pytest.raises(RemoteProtocolError, match=f"version {other}, and this client {ours}"):
        await connecting


async def test_a_refusal_of_all_versions_names_those_of_the_agent() -> None:
    agent = FakeAgent()
    connecting = asyncio.ensure_future(AcpClient(agent, versions=(1,)).connect())
    await agent.refuse(await agent.next("initialize"), UNSUPPORTED)
    with pytest.raises(RemoteProtocolError, match="version 2, and this client 1"):
        await connecting


@pytest.mark.parametrize("versions", [(), (3,), (1, 1), "12", (1, "2")])
def test_versions_are_checked(versions: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="versions"):
        AcpClient(["x"], versions=versions)


# ---------------------------------------------------------------------- a session


async def test_a_prompt_ends_when_the_agent_is_idle_and_its_updates_are_handled() -> None:
    async with newer() as (agent, client):
        session = await opened(agent, client)
        seen: list[Any] = []
        session.subscribe(seen.append, updates.Update)
        prompting = asyncio.ensure_future(session.prompt("go"))
        call = await agent.next("session/prompt")
        await agent.send(message("user_message", "u1", "go"), state("running"))
        await agent.result(call, {"messageId": "u1"})
        await agent.send(
            message("agent_message", "a1", "one", "two"),
            message("agent_message", "a1", "three"),
            notification({"sessionUpdate": "tool_call_update", "toolCallId": "t", "title": "T"}),
            notification(
                {"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed"}
            ),
            notification(
                {
                    "sessionUpdate": "tool_call_content_chunk",
                    "toolCallId": "t",
                    "content": {"type": "content", "content": text("out")},
                }
            ),
            notification(
                {
                    "sessionUpdate": "plan_update",
                    "plan": {"type": "items", "planId": "p", "entries": []},
                }
            ),
            notification(
                {
                    "sessionUpdate": "config_option_update",
                    "configOptions": [
                        {
                            "configId": "model",
                            "name": "Model",
                            "type": "select",
                            "currentValue": "a",
                            "options": [{"groupId": "g", "name": "G", "options": []}],
                        }
                    ],
                }
            ),
        )
        await settled()
        assert not prompting.done()
        assert session.state.activity == "running"
        await agent.send(state("idle", stopReason="max_tokens"), chunk("after"))
        turn = await prompting
        assert (turn.stop_reason, turn.number) == ("max_tokens", 1)
        await settled()
        assert [(type(each).__name__, each.turn) for each in seen] == [
            ("UserMessage", 1),
            ("StateUpdate", 1),
            ("AgentMessageChunk", 1),
            ("AgentMessageChunk", 1),
            ("AgentMessage", 1),
            ("ToolCall", 1),
            ("ToolCallUpdate", 1),
            ("ToolCallContentChunk", 1),
            ("Plan", 1),
            ("ConfigOptionUpdate", 1),
            ("StateUpdate", 1),
            ("AgentMessageChunk", None),
        ]
        assert seen[2].raw["sessionUpdate"] == "agent_message"
        assert session.state.tool_calls["t"].status == "completed"
        assert len(session.state.tool_calls["t"].content) == 1
        assert [option.id for option in session.state.options] == ["model"]  # type: ignore[union-attr]
        late = session.updates()
        assert [await anext(late) for _ in seen] == seen


async def test_an_end_before_the_answer_counts_if_the_echo_preceded_it() -> None:
    async with newer() as (agent, client):
        session = await opened(agent, client)
        prompting = asyncio.ensure_future(session.prompt("go"))
        call = await agent.next("session/prompt")
        await agent.send(
            state("running"),
            state("idle", stopReason="end_turn"),  # work of the agent's own
            message("user_message", "u1", "go"),
            state("running"),
            state("idle", stopReason="refusal"),
        )
        await agent.result(call, {"messageId": "u1"})
        assert (await prompting).stop_reason == "refusal"


async def test_an_idle_state_that_ends_no_work_does_not_end_a_prompt() -> None:
    async with newer() as (agent, client):
        session = await opened(agent, client)
        prompting = asyncio.ensure_future(session.prompt("go"))
        await agent.result(await agent.next("session/prompt"), {"messageId": "u1"})
        await agent.send(state("idle"))
        await settled()
        assert not prompting.done()
        await agent.send(state("running"), state("idle"))
        assert (await prompting).stop_reason == "unknown"


async def test_work_that_fails_raises_what_the_agent_says() -> None:
    async with newer() as (agent, client):
        session = await opened(agent, client)
        prompting = asyncio.ensure_future(session.prompt("go"))
        await agent.result(await agent.next("session/prompt"), {"messageId": "u1"})
        error = {"code": -32603, "message": "no credit"}
        await agent.send(state("running"), state("idle", stopReason="error", error=error))
        with pytest.raises(AgentRefused, match="no credit"):
            await prompting


async def test_a_handler_may_send_a_prompt() -> None:
    async with newer() as (agent, client):
        session = await opened(agent, client)
        ended: list[str] = []

        @session.on(updates.StateUpdate)
        async def ask(update: Any) -> None:
            if update.state == "requires_action":
                ended.append((await session.prompt("more")).stop_reason)

        await agent.send(state("requires_action"))
        await agent.result(await agent.next("session/prompt"), {"messageId": "u1"})
        await agent.send(state("running"), state("idle", stopReason="end_turn"))
        await settled()
        assert ended == ["end_turn"]


async def test_updates_outside_a_prompt_are_delivered_and_permissions_are_asked() -> None:
    asked: list[Any] = []

    def allow(request: Any) -> bool:
        asked.append(request)
        return True

    async with newer(on_permission=allow) as (agent, client):
        session = await opened(agent, client)
        seen: list[Any] = []
        session.subscribe(seen.append, updates.AgentMessageChunk)
        await agent.send(state("running"), chunk("by itself"))
        for subject in (
            {"type": "tool_call", "toolCall": {"toolCallId": "t", "title": "Edit"}},
            {"type": "command", "command": "rm x", "cwd": "/"},
            {"type": "_other"},
            None,
        ):
            request = agent.request(
                "session/request_permission",
                sessionId="s1",
                title="May I?",
                subject=subject,
                options=OPTIONS,
            )
            await agent.send(request)
            reply = await agent.reply_to(request)
            assert reply["result"] == {"outcome": {"outcome": "selected", "optionId": "yes"}}
        assert [update.turn for update in seen] == [None]
        assert [request.title for request in asked] == ["May I?"] * 4
        assert [request.tool_call.title for request in asked] == ["Edit", *["May I?"] * 3]
        assert asked[1].tool_call.raw_input == {"command": "rm x", "cwd": "/"}
        assert list(session.state.tool_calls) == ["t"]


async def test_a_cancelled_prompt_ends_as_cancelled() -> None:
    async with newer() as (agent, client):
        session = await opened(agent, client)
        prompting = asyncio.ensure_future(session.prompt("go"))
        await agent.result(await agent.next("session/prompt"), {"messageId": "u1"})
        await agent.send(state("running"))
        await session.cancel()
        assert (await agent.next("session/cancel"))["params"] == {"sessionId": "s1"}
        await agent.send(state("idle", stopReason="cancelled"))
        turn = await prompting
        assert (turn.stop_reason, turn.cancel_requested) == ("cancelled", True)
        prompting = asyncio.ensure_future(session.prompt("again"))
        call = await agent.next("session/prompt")
        await session.cancel()
        await agent.refuse(call, {"code": -32800, "message": "not inserted"})
        assert (await prompting).stop_reason == "cancelled"


async def test_load_is_a_resume_with_a_replay_and_its_messages_are_chunks() -> None:
    async with newer() as (agent, client):
        seen: list[Any] = []
        client.subscribe(seen.append, updates.Update)
        session = client.session("s1")
        loading = asyncio.ensure_future(session.load("/"))
        call = await agent.next("session/resume")
        assert call["params"]["replayFrom"] == {"type": "start"}
        await agent.send(
            message("user_message", "u1", "go"), message("agent_message", "a1", "done")
        )
        await agent.send(state("idle"))
        command = {"type": "command", "name": "web", "description": "search"}
        await agent.result(call, {"availableCommands": [command]})
        await loading
        assert [(type(each).__name__, each.replay) for each in seen] == [
            ("UserMessageChunk", True),
            ("AgentMessageChunk", True),
            ("StateUpdate", True),
        ]
        assert [each.name for each in session.state.commands] == ["web"]
        resuming = asyncio.ensure_future(session.resume("/"))
        call = await agent.next("session/resume")
        assert "replayFrom" not in call["params"]
        await agent.result(call, {})
        await resuming


async def test_an_accepted_prompt_fails_when_the_agent_exits_or_the_client_closes() -> None:
    for end, error in (("agent", LinkLost), ("client", ClientClosed), ("session", ClientClosed)):
        async with newer() as (agent, client):
            session = await opened(agent, client)
            prompting = asyncio.ensure_future(session.prompt("go"))
            await agent.result(await agent.next("session/prompt"), {"messageId": "u1"})
            await settled()
            if end == "agent":
                await agent.far.close(timeout=0)
            elif end == "client":
                await client.close(drain=0)
            else:
                closing = asyncio.ensure_future(session.close())
                await agent.result(await agent.next("session/close"), {})
                await closing
            with pytest.raises(error):
                await prompting


async def test_files_and_modes_are_of_version_1() -> None:
    async with newer(fs=LocalFiles(".")) as (agent, client):
        request = agent.request("fs/read_text_file", sessionId="s1", path="/x")
        await agent.send(request)
        assert (await agent.reply_to(request))["error"]["code"] == -32601
        session = await opened(agent, client)
        with pytest.raises(FeatureNotNegotiated, match="set_config_option"):
            await session.set_mode("ask")
        stdio = schema.McpServerStdio(name="x", command="/x", args=[], env=[])
        with pytest.raises(FeatureNotNegotiated, match="stdio"):
            await client.new_session(mcp_servers=[stdio])


async def test_a_login_uses_the_names_of_version_2() -> None:
    async with newer() as (agent, client):
        logging_in = asyncio.ensure_future(client.authenticate("key"))
        call = await agent.next("auth/login")
        assert call["params"] == {"methodId": "key"}
        await agent.result(call, {})
        await logging_in


# ---------------------------------------------------------------------- whatever an agent sends

KINDS = st.sampled_from(
    [
        *("state_update", "user_message", "agent_message", "agent_thought", "tool_call_update"),
        *("tool_call_content_chunk", "terminal_update", "terminal_output_chunk", "plan_update"),
        *("config_option_update", "agent_message_chunk", "available_commands_update", "_other"),
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
FIELDS = st.sampled_from(
    [
        *("state", "messageId", "content", "toolCallId", "plan", "configOptions", "stopReason"),
        *("terminalId", "output", "usage", "error", "background", "availableCommands", "_meta"),
    ]
)


@given(
    st.lists(
        st.tuples(KINDS | VALUES, st.dictionaries(FIELDS, VALUES, max_size=4)),
        max_size=6,
    )
)
def test_no_update_is_lost_and_none_breaks_the_reader(given_: list[tuple[Any, Any]]) -> None:
    reader, work = UpdateReader(), ForegroundWork()
    work.prompt(lambda: False)
    for kind, fields in given_:
        value = notification({"sessionUpdate": kind, **fields})
        line = json.dumps(value).encode()
        work.seen(line)
        read = reader.read(line, Origin("s1", None, False))
        assert read
        for update in read:
            at = update.__dict__["at"]
            again = at[2](at[0], at[1])
            assert (type(again), again) == (type(update), update)


@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda words: words.encode()))
def test_no_line_breaks_the_reader(line: bytes) -> None:
    assert UpdateReader().read(line, Origin("s1", None, False))
    ForegroundWork().seen(line)
