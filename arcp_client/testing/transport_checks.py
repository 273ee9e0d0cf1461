"""The conformance kit of transports: what the links of clients and runtimes rely on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from arcp_client._tasks import start
from arcp_client.errors import LinkLost, LocalProtocolError
from arcp_client.testing._checks import expect, raises, run_all
from arcp_client.transports.base import Transport

__all__ = ["TRANSPORT_CHECKS", "TransportCase", "check_transport"]

_BLOCK = b"b" * 65_536
_BLOCKS = 512
"""32 MiB, which is more than all buffers of a link should hold."""
_LONG = 20.0
"""Seconds after which a frame that was sent counts as lost."""


@dataclass(frozen=True, slots=True)
class TransportCase:
    """What a check of a transport gets.

    Attributes:
        near: one end of a new link, the one under test.
        far: the other end.
        limit: the largest frame that ``near`` sends, in bytes; ``None`` if there is no limit.
    """

    near: Transport
    far: Transport
    limit: int | None = None


TransportCheck: TypeAlias = Callable[[TransportCase], Awaitable[None]]


async def _ticks(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def _lost(call: asyncio.Task[Any], rule: str) -> LinkLost:
    return await raises(LinkLost, call, rule)


async def _blocked_sender(link: TransportCase) -> asyncio.Task[None]:
    """Return a task that waits in ``send``, because the peer reads nothing."""
    sent: list[int] = []

    async def send() -> None:
        for n in range(_BLOCKS):
            await link.near.send(_BLOCK)
            sent.append(n)

    sender = start(send())
    for n in range(500):
        await link.far.send(b"%d" % n)
        expect(await link.near.receive() == b"%d" % n, "frames arrive while a sender waits")
    rule = "send waits while the peer reads nothing"
    expect(not sender.done() and len(sent) * len(_BLOCK) < 24 * 1024 * 1024, rule)
    return sender


async def carries_frames_both_ways(link: TransportCase) -> None:
    """A frame arrives as it was sent, in both directions."""
    await link.near.send(b'{"a":1}')
    expect(await link.far.receive() == b'{"a":1}', "the far end receives what the near end sent")
    await link.far.send(b'{"b":2}')
    expect(await link.near.receive() == b'{"b":2}', "the near end receives what the far end sent")


async def keeps_the_order_of_frames(link: TransportCase) -> None:
    """Ten thousand frames arrive in order, in both directions at once."""
    frames = [b'{"n":%d}' % n for n in range(10_000)]

    async def send(end: Transport) -> None:
        for frame in frames:
            await end.send(frame)

    async def receive(end: Transport) -> list[bytes]:
        return [await end.receive() for _ in frames]

    _, _, at_near, at_far = await asyncio.gather(
        send(link.near), send(link.far), receive(link.near), receive(link.far)
    )
    expect(at_near == frames and at_far == frames, "no frame is lost, repeated or out of order")


async def sends_in_the_order_of_the_calls(link: TransportCase) -> None:
    """Frames of concurrent senders are sent in the order of the calls."""
    senders = [start(link.near.send(b"%d" % n)) for n in range(200)]
    got = [await link.far.receive() for _ in range(200)]
    expect(got == [b"%d" % n for n in range(200)], "concurrent calls of send keep their order")
    await asyncio.gather(*senders)


async def holds_a_sender_whose_peer_reads_nothing(link: TransportCase) -> None:
    """`send` waits while the peer reads nothing, and continues afterwards."""
    sender = await _blocked_sender(link)
    for _ in range(_BLOCKS):
        expect(await link.far.receive() == _BLOCK, "a sender that waited loses no frame")
    await sender


async def a_cancelled_sender_disturbs_no_other(link: TransportCase) -> None:
    """A cancelled `send` affects neither other senders nor the receiver."""
    cancelled = await _blocked_sender(link)
    frames = [b"%d" % n * 300_000 for n in range(3)]
    others = [start(link.near.send(frame)) for frame in frames]
    await _ticks(3)
    cancelled.cancel()
    await _ticks(3)
    others.append(start(link.near.send(b"last")))
    await _ticks(3)
    expect(not others[0].done(), "a cancelled sender does not let others pass")
    await link.far.send(b"still here")
    expect(await link.near.receive() == b"still here", "a cancelled sender leaves the receiver")
    got = [await link.far.receive()]
    while got[-1] != b"last":
        got.append(await link.far.receive())
    rest = [frame for frame in got if frame != _BLOCK]
    expect(rest == [*frames, b"last"], "the frames of other senders arrive, in order")
    await asyncio.gather(*others)
    expect(cancelled.cancelled(), "a cancelled send raises CancelledError")


async def carries_large_frames(link: TransportCase) -> None:
    """A frame of a megabyte arrives whole, in both directions."""
    frame = b'"' + bytes(range(32, 127)) * 10_600 + b'"'
    for sender, receiver in ((link.near, link.far), (link.far, link.near)):
        sending = start(sender.send(frame))
        expect(await receiver.receive() == frame, "a frame of a megabyte arrives whole")
        await sending


async def refuses_frames_over_its_limit(link: TransportCase) -> None:
    """With a limit: a frame at the limit passes; one above it is refused, and the link stays."""
    if link.limit is None:
        return
    rule = "a frame over the limit raises LocalProtocolError"
    error = await raises(LocalProtocolError, link.near.send(b"x" * (link.limit + 1)), rule)
    expect(str(link.limit) in str(error), "the error names the limit")
    sending = start(link.near.send(b"x" * link.limit))
    expect(len(await link.far.receive()) == link.limit, "a frame at the limit passes")
    await sending
    await link.near.send(b"the link stays")
    expect(await link.far.receive() == b"the link stays", "a refused frame does not end the link")


async def takes_no_character_for_the_end_of_a_frame(link: TransportCase) -> None:
    """Every character of JSON text may be in a frame."""
    for text in ("line\u2028separator", "next\u0085line", "é", "中文", "😀", "\x1c\x0b\x0c"):
        frame = f'{{"text":"{text}"}}'.encode()
        await link.near.send(frame)
        await link.far.send(frame)
        rule = f"{text!r} is no end of a frame"
        expect(await link.far.receive() == frame, rule)
        expect(await link.near.receive() == frame, rule)


async def a_cancelled_receive_loses_nothing(link: TransportCase) -> None:
    """A cancelled `receive` loses no frame."""
    frames = [b"%d" % n for n in range(200)]
    got: list[bytes] = []
    for n, frame in enumerate(frames):
        call = start(link.near.receive())
        await _ticks(n % 5)
        sending = start(link.far.send(frame))
        await _ticks(n % 11)
        call.cancel()
        await asyncio.wait({call, sending})
        if not call.cancelled():
            got.append(call.result())
    try:
        async with asyncio.timeout(_LONG):
            while len(got) < len(frames):
                got.append(await link.near.receive())
    except TimeoutError:
        raise AssertionError("a cancelled receive loses no frame") from None
    expect(got == frames, "a cancelled receive loses no frame")


async def a_close_ends_a_waiting_receive(link: TransportCase) -> None:
    """`close` ends a `receive` at both ends with LinkLost."""
    call = start(link.near.receive())
    await _ticks(3)
    closing = start(link.near.close())
    answer = start(link.far.receive())
    await _lost(call, "close ends a waiting receive with LinkLost")
    await closing
    await _lost(answer, "the other end learns of the close")


async def a_close_ends_a_blocked_send(link: TransportCase) -> None:
    """`close` ends a `send` that waits, within its timeout."""
    sender = await _blocked_sender(link)
    await link.near.close(timeout=0.2)
    await _lost(sender, "close ends a waiting send with LinkLost")


async def delivers_what_the_peer_sent_before_it_closed(link: TransportCase) -> None:
    """Frames that arrived before the end of the link are received first; then every call raises."""
    for n in range(10):
        await link.far.send(b"%d" % n)
    closing = start(link.far.close())
    got = [await link.near.receive() for _ in range(10)]
    expect(got == [b"%d" % n for n in range(10)], "frames before the close are received first")
    rule = "receive raises LinkLost after the last frame, again and again"
    first = await raises(LinkLost, link.near.receive(), rule)
    again = await raises(LinkLost, link.near.receive(), rule)
    await closing
    expect(str(first) == str(again), "each LinkLost carries the same reason")
    expect(first is not again, "each call raises a new error, so that tracebacks do not grow")
    await raises(LinkLost, link.near.send(b"too late"), "a sender learns that the peer has closed")


async def after_a_close_every_call_raises_link_lost(link: TransportCase) -> None:
    """After `close`, `send` and `receive` raise LinkLost."""
    await link.near.close(timeout=0.5)
    for _ in range(3):
        await raises(LinkLost, link.near.send(b"{}"), "send raises LinkLost after a close")
        await raises(LinkLost, link.near.receive(), "receive raises LinkLost after a close")


async def may_be_closed_again_and_by_several_tasks(link: TransportCase) -> None:
    """`close` is idempotent, at both ends and from several tasks at once."""
    for n in range(10):
        await link.far.send(b"%d" % n)
    await asyncio.gather(*(link.near.close(timeout=0.5) for _ in range(3)))
    await link.near.close()
    await asyncio.gather(*(link.far.close(timeout=0.5) for _ in range(3)))
    await link.far.close()


async def both_ends_may_close_at_once(link: TransportCase) -> None:
    """Both ends may close at the same time."""
    await asyncio.gather(link.near.close(), link.far.close())


async def a_close_waits_no_longer_than_its_timeout(link: TransportCase) -> None:
    """`close` does not wait longer than its timeout for a peer that reads nothing."""
    sender = await _blocked_sender(link)
    await link.near.close(timeout=0.0)
    await _lost(sender, "close ends a waiting send with LinkLost")


async def a_cancelled_close_closes(link: TransportCase) -> None:
    """A cancelled `close` closes the link without waiting for the peer."""
    sender = await _blocked_sender(link)
    closing = start(link.near.close(timeout=3600))
    await _ticks(2)
    closing.cancel()
    await asyncio.wait({closing})
    await _lost(sender, "a cancelled close ends a waiting send")
    await raises(LinkLost, link.near.receive(), "a cancelled close ends the link")


TRANSPORT_CHECKS: tuple[TransportCheck, ...] = (
    carries_frames_both_ways,
    keeps_the_order_of_frames,
    sends_in_the_order_of_the_calls,
    holds_a_sender_whose_peer_reads_nothing,
    a_cancelled_sender_disturbs_no_other,
    carries_large_frames,
    refuses_frames_over_its_limit,
    takes_no_character_for_the_end_of_a_frame,
    a_cancelled_receive_loses_nothing,
    a_close_ends_a_waiting_receive,
    a_close_ends_a_blocked_send,
    delivers_what_the_peer_sent_before_it_closed,
    after_a_close_every_call_raises_link_lost,
    may_be_closed_again_and_by_several_tasks,
    both_ends_may_close_at_once,
    a_close_waits_no_longer_than_its_timeout,
    a_cancelled_close_closes,
)
"""The checks of `check_transport`, to run each as a test of its own with a `TransportCase`."""


async def check_transport(
    connect: Callable[[], AbstractAsyncContextManager[tuple[Transport, Transport]]],
    *,
    limit: int | None = None,
    timeout: float = 60.0,
) -> None:
    """Check that a transport does what the links of clients and runtimes rely on.

    Args:
        connect: opens a new link for each check: a context manager of its two ends. The first is
            the one under test; give both ends of your transport in turn if they differ. Leaving the
            block closes both.
        limit: the largest frame that the first end sends, in bytes, at least 1 MiB. Without it,
            nothing is checked about a limit.
        timeout: seconds for each check.

    Raises:
        AssertionError: the transport violates a rule; the message says which, a note names the
            check.
    """

    async def run(check: TransportCheck) -> None:
        async with connect() as (near, far):
            try:
                async with asyncio.timeout(timeout):
                    await check(TransportCase(near, far, limit))
            except TimeoutError:
                rule = f"a check ends within {timeout:g} seconds: a call waits for ever"
                raise AssertionError(rule) from None

    names = [check.__name__ for check in TRANSPORT_CHECKS]
    await run_all([partial(run, check) for check in TRANSPORT_CHECKS], names)
