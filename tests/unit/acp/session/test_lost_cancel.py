"""A cancel that cannot be delivered: nobody waits for an answer to it."""

from __future__ import annotations

import asyncio

import pytest

from arcp_client.errors import LinkLost
from tests.unit.acp.kit import FakeAgent, connected, opened


def deaf_to_cancels(agent: FakeAgent) -> None:
    """From now on a cancel cannot be written: the agent has closed its input, and talks on."""
    send = agent._near.send

    async def failing(frame: bytes) -> None:
        if b"session/cancel" in frame:
            raise LinkLost("the agent has closed its input")
        await send(frame)

    agent._near.send = failing  # type: ignore[method-assign]


@pytest.mark.parametrize("how", ["cancel", "task"])
async def test_a_prompt_whose_cancel_cannot_be_written_ends(how: str) -> None:
    async with connected() as (agent, client):
        session = await opened(agent, client)
        prompting = asyncio.ensure_future(session.prompt("go"))
        await agent.next("session/prompt")
        other = asyncio.ensure_future(client.new_session())
        await agent.next("session/new")
        deaf_to_cancels(agent)
        if how == "cancel":
            with pytest.raises(LinkLost):
                await session.cancel()
        else:
            prompting.cancel()
        outcomes = await asyncio.wait_for(
            asyncio.gather(prompting, other, return_exceptions=True), 10
        )
        assert type(outcomes[0]) is (LinkLost if how == "cancel" else asyncio.CancelledError)
        assert type(outcomes[1]) is LinkLost  # so does whoever else waits for this agent
