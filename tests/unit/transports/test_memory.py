"""What is particular to a link inside one event loop."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcp_client.errors import LinkLost, LocalProtocolError
from arcp_client.transports import Transport, memory_pair
from arcp_client.transports.memory import MemoryTransport


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


@given(
    calls=st.lists(st.lists(st.integers(0, 40_000), max_size=6), max_size=12),
    reads=st.lists(st.integers(1, 5), max_size=40),
    capacity=st.integers(1, 8),
)
async def test_frames_sent_together_arrive_once_in_the_order_of_the_calls(
    calls: list[list[int]], reads: list[int], capacity: int
) -> None:
    near, far = memory_pair(capacity=capacity)
    assert isinstance(near, MemoryTransport)
    assert isinstance(far, MemoryTransport)
    frames = [
        [b"%d.%d " % (n, m) + b"x" * size for m, size in enumerate(sizes)]
        for n, sizes in enumerate(calls)
    ]
    sending = [asyncio.create_task(near.send_many(together)) for together in frames]
    wanted = [frame for together in frames for frame in together]
    got: list[bytes] = []
    for most in [*reads, *[3] * len(wanted)]:
        if len(got) < len(wanted):
            found = await far.receive_many(most)
            assert 1 <= len(found) <= most
            got += found
    await asyncio.gather(*sending)
    assert sorted(got) == sorted(wanted)
    for together in frames:
        places = [got.index(frame) for frame in together]
        assert places == sorted(places), "the frames of a call stay in order"


async def test_of_frames_sent_together_those_before_one_that_is_too_large_arrive() -> None:
    near, far = memory_pair(max_frame=3)
    assert isinstance(near, MemoryTransport)
    with pytest.raises(LocalProtocolError, match="limit of 3 bytes"):
        await near.send_many([b"1", b"22", b"4444", b"3"])
    assert [await far.receive(), await far.receive()] == [b"1", b"22"]
    await far.close()
    with pytest.raises(LinkLost):
        await near.send_many([b"1", b"2"])
