"""How long an answer is held for earlier messages of its session."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from arcp_client._tasks import TaskOwner
from arcp_client.acp._http.order import HeldAnswers
from arcp_client.acp._http.routes import MessageRoutes
from arcp_client.errors import LinkLost
from tests.unit.acp.http.kit import linked, serving


class Session:
    """A session of which messages arrive, or not."""

    def __init__(self) -> None:
        self.looks: asyncio.Queue[None] = asyncio.Queue()
        self.arriving = True
        self.sent: list[str] = []
        self.put: list[bytes] = []
        self.failure: Exception | None = None
        self._number = 0

    def progress(self, _session: str) -> object:
        self.looks.put_nowait(None)
        self._number += self.arriving
        return self._number

    async def send(self, message: bytes) -> None:
        if self.failure is not None:
            raise self.failure
        self.sent.append(json.loads(message)["id"])


@pytest.fixture
def session() -> Session:
    return Session()


@pytest.fixture
async def held(session: Session, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[HeldAnswers]:
    monkeypatch.setattr("arcp_client.acp._http.order._QUIET", 0.001)
    owner = TaskOwner("test")
    yield HeldAnswers(owner, send=session.send, progress=session.progress, put=session.put.extend)
    await owner.close()


async def test_an_answer_waits_while_messages_arrive_and_no_longer(
    session: Session, held: HeldAnswers, caplog: pytest.LogCaptureFixture
) -> None:
    held.hold(b"{}", "s1", MessageRoutes())
    for _ in range(20):
        await session.looks.get()
    assert session.put == []
    session.arriving = False
    while not session.put:
        await session.looks.get()
        await asyncio.sleep(0)
    assert session.put == [b"{}"]
    assert "did not answer the request that orders the streams" in caplog.text
    assert held.release(session.sent[0]) == []  # it is handed on once


async def test_an_answer_that_is_released_is_not_handed_on_again(
    session: Session, held: HeldAnswers, caplog: pytest.LogCaptureFixture
) -> None:
    held.hold(b"{}", "s1", MessageRoutes())
    await session.looks.get()
    assert held.release("arcp-order-0") == []
    assert held.release(session.sent[0]) == [b"{}"]
    session.arriving = False
    for _ in range(10):
        await asyncio.sleep(0)
    assert session.put == []
    assert caplog.text == ""


async def test_the_answers_of_a_lost_link_are_dropped(session: Session, held: HeldAnswers) -> None:
    session.failure = LinkLost("gone")
    held.hold(b"{}", "s1", MessageRoutes())
    for _ in range(10):
        await asyncio.sleep(0)
    assert session.put == []


async def test_the_silence_of_streams_that_may_not_be_read_does_not_count() -> None:
    async with serving() as agent, linked(agent) as (link, _):
        assert link._progress("s1") == link._progress("s1")
        link._flowing.clear()
        assert link._progress("s1") != link._progress("s1")
        link._flowing.set()
