"""What is particular to a link inside one event loop."""

from __future__ import annotations

import asyncio

import pytest

from arcp_client.errors import LinkLost
from arcp_client.transports import Transport, memory_pair


async def test_it_holds_as_many_frames_as_its_capacity_and_no_more() -> None:
    near, far = memory_pair(capacity=3)
    for n in range(3):
        await near.send(b"%d" % n)
    fourth = asyncio.create_task(near.send(b"3"))
    await asyncio.sleep(0)
    assert not fourth.done()
    assert await far.receive() == b"0"
    await fourth
    assert [await far.receive() for _ in range(3)] == [b"1", b"2", b"3"]


async def test_a_sender_that_is_cancelled_while_it_waits_has_sent_nothing() -> None:
    near, far = memory_pair(capacity=1)
    await near.send(b"first")
    waiting = [asyncio.create_task(near.send(name)) for name in (b"cancelled", b"kept")]
    await asyncio.sleep(0)
    waiting[0].cancel()
    assert [await far.receive(), await far.receive()] == [b"first", b"kept"]
    await waiting[1]
    assert waiting[0].cancelled()


async def test_a_call_that_finds_room_does_not_overtake_one_that_waits() -> None:
    near, far = memory_pair(capacity=1)
    await near.send(b"0")
    waiting = asyncio.create_task(near.send(b"1"))
    await asyncio.sleep(0)
    assert await far.receive() == b"0"
    later = asyncio.create_task(near.send(b"2"))
    assert [await far.receive(), await far.receive()] == [b"1", b"2"]
    await asyncio.gather(waiting, later)


async def test_a_sender_that_waits_when_the_peer_closes_learns_that_its_frame_did_not_go() -> None:
    near, far = memory_pair(capacity=1)
    await near.send(b"0")
    waiting = asyncio.create_task(near.send(b"1"))
    await asyncio.sleep(0)
    await far.close()
    with pytest.raises(LinkLost, match="closed the link"):
        await waiting


async def test_the_end_that_closed_receives_nothing_more_though_something_is_there() -> None:
    near, far = memory_pair()
    await far.send(b"{}")
    await near.close()
    with pytest.raises(LinkLost, match="closed by this side"):
        await near.receive()


def test_a_pair_without_room_for_a_frame_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        memory_pair(capacity=0)


async def test_both_ends_are_what_the_seam_asks_for() -> None:
    assert all(isinstance(end, Transport) for end in memory_pair())
