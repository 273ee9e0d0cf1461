"""What every transport does, whatever carries its frames."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from arcp_client.errors import LinkLost, LocalProtocolError
from arcp_client.transports import Transport
from tests.unit.transports.kit import KINDS, LIMIT, Pair, nothing_left

BLOCK = b"b" * 65_536
BLOCKS = 512  # 32 MiB, more than all buffers on the way together


@pytest.fixture(params=sorted(KINDS))
async def pair(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Pair]:
    with nothing_left():
        async with KINDS[request.param](tmp_path) as pair:
            yield pair


async def ticks(n: int) -> None:
    for _ in range(n):
        await asyncio.sleep(0)


async def send_blocks(transport: Transport, sent: list[int]) -> None:
    for n in range(BLOCKS):
        await transport.send(BLOCK)
        sent.append(n)


async def lost(call: asyncio.Task[object]) -> LinkLost:
    with pytest.raises(LinkLost) as caught:
        await call
    return caught.value


async def blocked_sender(pair: Pair) -> asyncio.Task[None]:
    """A task inside send() whose peer reads nothing. That much else happens shows that it waits."""
    sent: list[int] = []
    sender = asyncio.create_task(send_blocks(pair.near, sent))
    for n in range(500):
        await pair.far.send(b"%d" % n)
        assert await pair.near.receive() == b"%d" % n
    assert not sender.done()
    assert len(sent) * len(BLOCK) < 24 * 1024 * 1024
    return sender


async def test_a_frame_goes_there_and_back(pair: Pair) -> None:
    await pair.near.send(b'{"a":1}')
    assert await pair.far.receive() == b'{"a":1}'
    await pair.far.send(b'{"b":2}')
    assert await pair.near.receive() == b'{"b":2}'


async def test_ten_thousand_frames_keep_their_order_in_both_directions_at_once(pair: Pair) -> None:
    frames = [b'{"n":%d}' % n for n in range(10_000)]

    async def send(end: Transport) -> None:
        for frame in frames:
            await end.send(frame)

    async def receive(end: Transport) -> list[bytes]:
        return [await end.receive() for _ in frames]

    _, _, at_near, at_far = await asyncio.gather(
        send(pair.near), send(pair.far), receive(pair.near), receive(pair.far)
    )
    assert at_near == frames
    assert at_far == frames


async def test_a_sender_is_held_while_the_peer_reads_nothing_and_goes_on_afterwards(
    pair: Pair,
) -> None:
    sender = await blocked_sender(pair)
    for _ in range(BLOCKS):
        assert await pair.far.receive() == BLOCK
    await sender


async def test_frames_of_concurrent_senders_go_out_in_the_order_of_the_calls(pair: Pair) -> None:
    senders = [asyncio.create_task(pair.near.send(b"%d" % n)) for n in range(200)]
    assert [await pair.far.receive() for _ in range(200)] == [b"%d" % n for n in range(200)]
    await asyncio.gather(*senders)


async def test_a_cancelled_sender_disturbs_neither_the_others_nor_the_receiver(pair: Pair) -> None:
    cancelled = await blocked_sender(pair)
    frames = [b"%d" % n * 300_000 for n in range(3)]  # each large enough to be made to wait
    others = [asyncio.create_task(pair.near.send(frame)) for frame in frames]
    await ticks(3)
    cancelled.cancel()
    await ticks(3)
    others.append(asyncio.create_task(pair.near.send(b"last")))
    await ticks(3)
    assert not others[0].done()
    await pair.far.send(b"still here")
    assert await pair.near.receive() == b"still here"
    got = [await pair.far.receive()]
    while got[-1] != b"last":
        got.append(await pair.far.receive())
    assert [frame for frame in got if frame != BLOCK] == [*frames, b"last"]
    await asyncio.gather(*others)
    assert cancelled.cancelled()


async def test_a_megabyte_is_one_frame(pair: Pair) -> None:
    frame = b'"' + bytes(range(32, 127)) * 10_600 + b'"'
    assert len(frame) > 1_000_000
    sender = asyncio.create_task(pair.near.send(frame))
    assert await pair.far.receive() == frame
    await sender
    sender = asyncio.create_task(pair.far.send(frame))
    assert await pair.near.receive() == frame
    await sender


async def test_a_frame_at_the_limit_passes_and_one_above_is_refused_before_it_is_sent(
    pair: Pair,
) -> None:
    with pytest.raises(LocalProtocolError, match=f"{LIMIT + 1} bytes.*limit of {LIMIT}"):
        await pair.near.send(b"x" * (LIMIT + 1))
    sender = asyncio.create_task(pair.near.send(b"x" * LIMIT))
    assert len(await pair.far.receive()) == LIMIT
    await sender
    await pair.near.send(b"the link lives on")
    assert await pair.far.receive() == b"the link lives on"


@pytest.mark.parametrize(
    "text",
    [
        "line\u2028separator",
        "next\u0085line",
        "\u00e9",
        "\u4e2d\u6587",
        "\U0001f600",
        "\x1c\x0b\x0c",
    ],
)
async def test_no_character_is_taken_for_a_frame_end(pair: Pair, text: str) -> None:
    frame = f'{{"text":"{text}"}}'.encode()
    await pair.near.send(frame)
    await pair.far.send(frame)
    assert await pair.far.receive() == frame
    assert await pair.near.receive() == frame


async def test_a_cancelled_receive_loses_no_frame(pair: Pair) -> None:
    frames = [b"%d" % n for n in range(200)]
    got: list[bytes] = []
    for n, frame in enumerate(frames):
        call = asyncio.create_task(pair.near.receive())
        await ticks(n % 5)
        sending = asyncio.create_task(pair.far.send(frame))
        await ticks(n % 11)
        call.cancel()
        await asyncio.wait({call, sending})
        if not call.cancelled():
            got.append(call.result())
    while len(got) < len(frames):
        got.append(await pair.near.receive())
    assert got == frames


async def test_a_close_ends_a_waiting_receive(pair: Pair) -> None:
    call = asyncio.create_task(pair.near.receive())
    await ticks(3)
    closing = asyncio.create_task(pair.near.close())
    answer = asyncio.create_task(pair.far.receive())
    assert "closed by this side" in str(await lost(call))
    await closing
    await lost(answer)


async def test_a_close_ends_a_blocked_send(pair: Pair) -> None:
    sender = await blocked_sender(pair)
    await pair.near.close(timeout=0.2)
    await lost(sender)


async def test_what_the_peer_sent_before_it_closed_is_received_first(pair: Pair) -> None:
    for n in range(10):
        await pair.far.send(b"%d" % n)
    closing = asyncio.create_task(pair.far.close())
    assert [await pair.near.receive() for _ in range(10)] == [b"%d" % n for n in range(10)]
    first = await lost(asyncio.create_task(pair.near.receive()))
    again = await lost(asyncio.create_task(pair.near.receive()))
    await closing
    assert str(first) == str(again)
    assert (first.close_code, first.exit_code) == (again.close_code, again.exit_code)
    assert "closed by this side" not in str(first)


async def test_a_sender_learns_that_the_peer_has_closed(pair: Pair) -> None:
    closing = asyncio.create_task(pair.far.close())
    await lost(asyncio.create_task(pair.near.receive()))
    await closing
    with pytest.raises(LinkLost):
        await pair.near.send(b"too late")


async def test_after_a_close_every_call_raises_link_lost(pair: Pair) -> None:
    await pair.near.close(timeout=0.5)
    for _ in range(7):
        with pytest.raises(LinkLost, match="closed by this side"):
            await pair.near.send(b"{}")
        with pytest.raises(LinkLost, match="closed by this side"):
            await pair.near.receive()


async def test_closing_again_and_from_three_tasks_at_once_is_harmless(pair: Pair) -> None:
    for n in range(10):
        await pair.far.send(b"%d" % n)
    await asyncio.gather(*(pair.near.close(timeout=0.5) for _ in range(3)))
    await pair.near.close()
    await asyncio.gather(*(pair.far.close(timeout=0.5) for _ in range(3)))
    await pair.far.close()


async def test_both_ends_may_close_at_once(pair: Pair) -> None:
    await asyncio.gather(pair.near.close(), pair.far.close())


async def test_a_close_does_not_wait_longer_than_its_timeout_for_a_peer_that_reads_nothing(
    pair: Pair,
) -> None:
    sender = await blocked_sender(pair)
    await pair.near.close(timeout=0.0)
    await lost(sender)


async def test_a_cancelled_close_leaves_nothing_open(pair: Pair) -> None:
    sender = await blocked_sender(pair)
    closing = asyncio.create_task(pair.near.close(timeout=3600))
    await ticks(2)
    closing.cancel()
    await asyncio.wait({closing})
    await lost(sender)
    with pytest.raises(LinkLost):
        await pair.near.receive()


async def test_errors_are_new_objects_so_that_tracebacks_do_not_pile_up(pair: Pair) -> None:
    await pair.near.close(timeout=0.5)
    errors = [await lost(asyncio.create_task(pair.near.receive())) for _ in range(2)]
    assert errors[0] is not errors[1]
