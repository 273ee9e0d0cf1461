"""ACP clients that are dropped without having been closed, and what their repr shows (D20)."""

from __future__ import annotations

import asyncio
import gc

import pytest

from arcp_client.acp import AcpClient
from arcp_client.acp.terminals import LocalTerminals
from arcp_client.errors import LinkLost
from tests.unit.acp.kit import EVERYTHING, FakeAgent, opened


async def linked(**options: object) -> tuple[FakeAgent, AcpClient]:
    agent = FakeAgent()
    client = AcpClient(agent, **options)  # type: ignore[arg-type]
    connecting = asyncio.ensure_future(client.connect())
    call = await agent.next("initialize")
    await agent.result(call, {"protocolVersion": 1, "agentCapabilities": EVERYTHING})
    await connecting
    return agent, client


@pytest.mark.filterwarnings("ignore::ResourceWarning")
async def test_d20_a_client_that_is_dropped_is_reported_and_its_agent_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    agent, client = await linked(terminal=LocalTerminals())
    session = await opened(agent, client)
    prompting = asyncio.ensure_future(session.prompt("go"))
    await agent.next("session/prompt")
    with pytest.warns(ResourceWarning, match=r"<AcpClient fake connected> was dropped without"):
        del client
    with pytest.raises(LinkLost, match=r"dropped without close\(\)"):
        await asyncio.wait_for(prompting, 10)
    assert "was dropped without close()" in caplog.text
    with pytest.raises(LinkLost):
        while True:
            await asyncio.wait_for(agent.far.receive(), 10)


async def test_d20_a_client_that_was_closed_or_never_connected_is_dropped_silently(
    recwarn: pytest.WarningsRecorder,
) -> None:
    AcpClient(FakeAgent())
    _, client = await linked()
    await client.close()
    del client
    with pytest.raises(TypeError):
        AcpClient(3)  # type: ignore[arg-type]
    gc.collect()
    assert not [found for found in recwarn if found.category is ResourceWarning]


async def test_d20_a_client_whose_agent_has_ended_is_dropped_silently(
    recwarn: pytest.WarningsRecorder,
) -> None:
    agent, client = await linked()
    await agent.far.close()
    await client.wait_closed()
    assert repr(client) == "<AcpClient fake agent ended>"
    del client
    gc.collect()
    assert not [found for found in recwarn if found.category is ResourceWarning]


async def test_the_repr_of_a_client_shows_program_and_state_and_no_argument() -> None:
    client = AcpClient(["/opt/agent", "--token", "secret"], env={"TOKEN": "secret"})
    assert repr(client) == "<AcpClient agent not connected>"
    _, client = await linked()
    assert repr(client) == "<AcpClient fake connected>"
    await client.close()
    assert repr(client) == "<AcpClient fake closed>"
