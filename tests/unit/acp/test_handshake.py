"""How the version of the protocol is negotiated, also over links that take one ``initialize``."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from arcp_client.acp import AcpClient, AcpLimits, AgentRefused, schema
from arcp_client.acp._connection.connection import AgentConnection
from arcp_client.acp._connection.hooks import ClientHooks
from arcp_client.acp._handlers import Handlers
from arcp_client.acp._handshake import AskedTwice, negotiate
from arcp_client.acp.errors import INVALID_REQUEST, UNSUPPORTED_VERSION
from arcp_client.errors import ArcpError, RemoteProtocolError
from arcp_client.transports import MemoryTransport
from tests.unit.acp.kit import FakeAgent

UNKNOWN = {"code": UNSUPPORTED_VERSION, "message": "unknown", "data": {"supported": [2]}}
TWICE = {"code": INVALID_REQUEST, "message": "initialize was already called"}
INTERNAL = {"code": -32603, "message": "broken"}
VERSION2 = {
    "protocolVersion": 2,
    "info": {"name": "agent", "version": "2"},
    "capabilities": {"session": {}},
}
INFO = schema.Implementation(name="test", version="1")


class Links:
    """A connector whose links are played one after another by fake agents."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.opened: asyncio.Queue[FakeAgent] = asyncio.Queue()
        self.count = 0

    async def connect(self) -> MemoryTransport:
        agent = FakeAgent()
        self.count += 1
        self.opened.put_nowait(agent)
        return await agent.connect()

    async def next(self) -> FakeAgent:
        return await self.opened.get()


async def asked(agent: FakeAgent, *outcomes: dict[str, Any]) -> list[int]:
    """Refuse or answer one ``initialize`` after another; return the versions they asked for."""
    versions = []
    for outcome in outcomes:
        call = await agent.next("initialize")
        versions.append(call["params"]["protocolVersion"])
        if "code" in outcome:
            await agent.refuse(call, outcome)
        else:
            await agent.result(call, outcome)
    return versions


@pytest.mark.parametrize("target", ["ws://agent/acp", "wss://agent/acp"])
async def test_a_link_that_takes_one_initialize_is_replaced_for_the_other_version(
    target: str,
) -> None:
    links = Links(target)
    client = AcpClient(links, versions=(1, 2))
    closed: list[Any] = []
    client.on_closed(closed.append)
    connecting = asyncio.create_task(client.connect())
    first = await links.next()
    assert await asked(first, UNKNOWN, TWICE) == [1, 2]
    second = await links.next()
    with pytest.raises(ConnectionError):  # the first link is closed
        await first.next()
    assert await asked(second, VERSION2) == [2]
    await connecting
    assert client.protocol_version == 2
    assert closed == []  # the end of the first link was not the end of the agent
    await client.close()
    assert closed == [None]
    assert links.count == 2


async def test_the_second_link_is_the_last_one() -> None:
    links = Links("ws://agent/acp")
    connecting = asyncio.create_task(AcpClient(links, versions=(1, 2)).connect())
    await asked(await links.next(), UNKNOWN, TWICE)
    assert await asked(await links.next(), UNKNOWN, TWICE) == [2, 1]
    with pytest.raises(RemoteProtocolError, match="speaks protocol version 2"):
        await connecting
    assert links.count == 2


@pytest.mark.parametrize(
    ("target", "outcomes", "error"),
    [
        ("fake", [UNKNOWN, TWICE], RemoteProtocolError),  # a program takes any number of them
        ("http://agent/acp", [UNKNOWN, TWICE], RemoteProtocolError),  # a new connection each
        ("ws://agent/acp", [UNKNOWN, INTERNAL], AgentRefused),  # refused for another reason
        ("ws://agent/acp", [TWICE, UNKNOWN], AgentRefused),  # it was asked once when it said so
    ],
)
async def test_other_refusals_open_no_second_link(
    target: str, outcomes: list[dict[str, Any]], error: type[Exception]
) -> None:
    links = Links(target)
    connecting = asyncio.create_task(AcpClient(links, versions=(1, 2)).connect())
    assert await asked(await links.next(), *outcomes) == [1, 2]
    with pytest.raises(error):
        await connecting
    assert links.count == 1


async def test_a_link_that_was_asked_twice_says_so_to_the_client_and_to_nothing_else() -> None:
    agent = FakeAgent()
    connection = AgentConnection(
        await agent.connect(),
        limits=AcpLimits(),
        handlers=Handlers(),
        routes={},
        hooks=ClientHooks(),
        name="agent",
        cwd="/",
    )
    connection.peer.start()
    request = schema.InitializeRequest(protocol_version=1)
    asking = asyncio.create_task(negotiate(connection, request, INFO, (1, 2), once=True))
    await asked(agent, UNKNOWN, TWICE)
    with pytest.raises(AskedTwice) as caught:
        await asking
    assert not isinstance(caught.value, ArcpError)  # it never leaves the client
    assert isinstance(caught.value.__cause__, AgentRefused)
    assert caught.value.__cause__.number == INVALID_REQUEST
    await agent.far.close()
    await connection.closed
