"""One link: how it ends, what it writes, and when its reader stops."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import SecretStr

from arcp_client._deadline import Deadline
from arcp_client._link.link import Link
from arcp_client._link.sleep_detector import LOOK_EVERY
from arcp_client._protocol import actions
from arcp_client._protocol.states import State
from arcp_client.errors import (
    ArcpError,
    HeartbeatLost,
    LinkLost,
    LocalProtocolError,
    RemoteProtocolError,
    RequestTimeout,
)
from arcp_client.testing import VirtualClock
from arcp_client.transports.base import FrameRefused

CLOSE_TIMEOUT = 5.0


class Wire:
    """A transport whose peer says what a test puts into `incoming`: frames and exceptions.

    Attributes:
        sent: the frames that were written.
        writable: whether the peer reads; frames wait until it does.
        too_long: frames that are refused with LocalProtocolError.
        closed: the time-outs of the closes.
    """

    def __init__(self) -> None:
        self.incoming: asyncio.Queue[bytes | BaseException] = asyncio.Queue()
        self.sent: list[bytes] = []
        self.writable = asyncio.Event()
        self.writable.set()
        self.too_long: set[bytes] = set()
        self.closed: list[float] = []

    async def receive(self) -> bytes:
        frame = await self.incoming.get()
        if isinstance(frame, BaseException):
            raise frame
        return frame

    async def send(self, frame: bytes) -> None:
        await self.writable.wait()
        if frame in self.too_long:
            raise LocalProtocolError(f"{frame.decode()} is too long")
        self.sent.append(frame)

    async def close(self, *, timeout: float = CLOSE_TIMEOUT) -> None:
        self.closed.append(timeout)


class ManyWire(Wire):
    """A transport that returns several frames at a time; it notes how many it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.limits: list[int] = []

    async def receive_many(self, limit: int) -> list[bytes]:
        self.limits.append(limit)
        frames = [await self.receive()]
        while len(frames) < limit and not self.incoming.empty():
            frames.append(await self.receive())
        return frames


class World:
    """A link with stand-ins for its driver, the session and the ingress, which note what it does.

    Attributes:
        received_frames: frames that the driver was given.
        set_aside_frames: frames that the ingress was given instead, while `aside` is true.
        stop: what the reader must await next.
        turn: how many frames the ingress lets the reader take in before it decides again.
        reports: errors of frames that were not readable, or too long to send.
        pings: requests that ask whether the peer is there.
        ended: the reasons that the link has given for its end.
        refusals: for each end, the reason if a frame of the runtime was refused.
        whole: whether the session has all frames of the link.
        pending: the largest request that waits for its answer.
        refused: requests that failed, with the errors.
        carried_out: whether the session's actions are carried out since.
    """

    state = State.LIVE
    info = SimpleNamespace(heartbeat_interval=None)

    def __init__(self, outbox: int, wire: Wire | None = None) -> None:
        self.wire = wire or Wire()
        self.turn = 64
        self.received_frames: list[bytes] = []
        self.lone: list[bool] = []
        self.set_aside_frames: list[bytes] = []
        self.stop: asyncio.Future[None] | None = None
        self.aside = False
        self.reports: list[RemoteProtocolError] = []
        self.pings: list[Any] = []
        self.ended: list[ArcpError] = []
        self.refusals: list[ArcpError | None] = []
        self.whole = True
        self.pending: Any = None
        self.refused: list[tuple[Any, ArcpError]] = []
        self.carried_out = False
        self.session = self.requests = self
        self.link = Link(
            self.wire,
            self,  # type: ignore[arg-type]
            ingress=self,  # type: ignore[arg-type]
            outbox=outbox,
            ended=self.ended.append,
        )
        self.running = asyncio.ensure_future(
            self.link.run(SecretStr("t"), handshake_timeout=60.0, close_timeout=CLOSE_TIMEOUT)
        )

    async def over(self) -> ArcpError:
        """The reason of the link's end."""
        cause = await self.running
        assert self.ended == [cause]
        return cause

    def send(self, *frames: bytes) -> None:
        for frame in frames:
            self.link.send(actions.Send(frame))

    # -- the driver and its session

    @property
    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def nothing(self, *_: Any, **__: Any) -> None: ...

    attach = greet = withdraw = failed = nothing

    def detach(self, refusal: ArcpError | None) -> None:
        self.refusals.append(refusal)

    def largest(self) -> Any:
        return self.pending

    def refuse(self, request: Any, error: ArcpError, _now: float) -> None:
        self.refused.append((request, error))
        self.carried_out = False

    def carry_out(self) -> None:
        self.carried_out = True

    def received(self, frames: list[bytes]) -> None:
        self.received_frames += frames

    def unreadable(self, error: RemoteProtocolError) -> None:
        self.reports.append(error)

    def request(self, request: Any, _now: float) -> None:
        self.pings.append(request)

    # -- the ingress

    def next_wait(self, lone: bool) -> asyncio.Future[None] | None:
        self.lone.append(lone)
        return self.stop

    async def set_aside(self, frame: bytes) -> None:
        self.set_aside_frames.append(frame)
        if self.stop is not None:
            await self.stop

    def link_lost(self) -> bool:
        return self.whole


Make = Callable[..., Awaitable[World]]


@pytest.fixture
async def make(clock: VirtualClock) -> AsyncIterator[Make]:
    """Makes a link that runs, and ends it after the test."""
    made: list[World] = []

    async def one(*, outbox: int = 1000, wire: Wire | None = None) -> World:
        world = World(outbox, wire)
        made.append(world)
        await clock.settle()
        return world

    yield one
    for world in made:
        world.link.drop(LinkLost("the test is over"))
        await world.over()


@pytest.fixture
async def world(make: Make) -> World:
    return await make()


# -- the end


@pytest.mark.parametrize(
    ("cause", "flush", "seconds"),
    [
        (LinkLost("reset"), False, 0.0),
        (HeartbeatLost("silent"), False, 0.0),
        (LinkLost("closed here"), True, CLOSE_TIMEOUT),
        (RemoteProtocolError("no welcome"), False, CLOSE_TIMEOUT),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, ArcpError) else str(value),
)
async def test_only_a_peer_that_may_be_there_gets_time_for_a_goodbye(
    world: World, cause: ArcpError, flush: bool, seconds: float
) -> None:
    world.link.drop(cause, flush=flush)
    assert await world.over() is cause
    assert world.wire.closed == [seconds]


async def test_the_close_of_a_client_limits_the_time_for_the_frames_and_for_the_goodbye(
    clock: VirtualClock, world: World
) -> None:
    world.wire.writable.clear()
    world.send(b"bye")
    world.link.close_by(Deadline(3.0))
    await clock.advance(1.0)
    world.link.drop(LinkLost("closed here"), flush=True)
    await clock.advance(1.0)
    world.wire.writable.set()
    await world.over()
    assert world.wire.sent == [b"bye"]
    assert world.wire.closed == [1.0]


async def test_an_ended_link_is_not_told_of_sleep(clock: VirtualClock, make: Make) -> None:
    ended, other = await make(), await make()
    ended.link.drop(LinkLost("reset"))
    await ended.over()
    clock.jump_wall(600.0)
    await clock.advance(2 * LOOK_EVERY)
    assert (len(ended.pings), len(other.pings)) == (0, 1)


@pytest.mark.parametrize("way", ["receive", "send"])
async def test_what_a_transport_raised_is_the_cause_of_the_loss(world: World, way: str) -> None:
    error = ValueError("odd")
    if way == "receive":
        world.wire.incoming.put_nowait(error)
    else:

        async def send(_: bytes) -> None:
            raise error

        world.wire.send = send  # type: ignore[method-assign]
        world.send(b"hello")
    cause = await world.over()
    assert isinstance(cause, LinkLost)
    assert "ValueError: odd" in str(cause)
    assert cause.__cause__ is error


@pytest.mark.parametrize("way", ["receive", "send"])
def test_an_interrupt_in_a_transport_ends_the_program_and_not_the_link(way: str) -> None:
    clock = VirtualClock()
    worlds: list[World] = []

    async def interrupted(_: bytes = b"") -> bytes:
        raise KeyboardInterrupt

    async def scene() -> None:
        world = World(outbox=1000)
        worlds.append(world)
        setattr(world.wire, way, interrupted)
        await clock.settle()
        world.send(b"hello")
        await world.over()

    with pytest.raises(KeyboardInterrupt):
        clock.run(scene())
    assert worlds[0].ended == []


async def test_the_welcome_is_read_alone_and_then_as_many_frames_as_the_ingress_lets_in(
    clock: VirtualClock, make: Make
) -> None:
    wire = ManyWire()
    world = await make(wire=wire)
    world.turn = 2
    for frame in (b"welcome", b"1", b"2", b"3"):
        wire.incoming.put_nowait(frame)
    await clock.settle()
    assert world.received_frames == [b"welcome", b"1", b"2", b"3"]
    assert wire.limits == [1, 2, 2, 2]


async def test_the_ingress_is_told_of_a_small_frame_that_came_alone(
    clock: VirtualClock, make: Make
) -> None:
    wire = ManyWire()
    world = await make(wire=wire)
    world.turn = 2
    for frames in ((b"welcome",), (b"x" * 4096,), (b"x" * 4097,), (b"1", b"2"), (b"3",)):
        for frame in frames:
            wire.incoming.put_nowait(frame)
        await clock.settle()
    world.aside = True
    wire.incoming.put_nowait(b"4")
    await clock.settle()
    wire.incoming.put_nowait(b"5")
    await clock.settle()
    assert world.received_frames[-1] == b"4"  # the reader already waited for it
    assert world.set_aside_frames == [b"5"]
    assert world.lone == [True, True, False, False, True, True, False]


@pytest.mark.parametrize("code", [1000, 1001, 1002, 1003, 1004, 1006, 1007, 1008, 1009, 1010, None])
@pytest.mark.parametrize("whole", [True, False])
async def test_a_refused_frame_counts_if_the_session_has_all_frames_before_it(
    world: World, code: int | None, whole: bool
) -> None:
    """Rule S18. The close codes: malformed, unsupported, not UTF-8, too large."""
    world.whole = whole
    cause = LinkLost("closed", close_code=code)
    world.link.drop(cause)
    await world.over()
    refused = code in (1002, 1003, 1007, 1009) and whole
    assert world.refusals == [cause if refused else None]


@pytest.mark.parametrize("pending", [True, False])
async def test_a_refused_request_is_blamed_before_a_frame_of_the_runtime(
    world: World, pending: bool
) -> None:
    """The largest one: only its size can be what the peer refused."""
    world.pending = SimpleNamespace(name="job.submit", size=5000) if pending else None
    cause = FrameRefused("too large", close_code=1009)
    world.link.drop(cause)
    await world.over()
    assert world.refusals == [None if pending else cause]
    assert [request for request, _ in world.refused] == ([world.pending] if pending else [])
    for _, error in world.refused:
        assert isinstance(error, LocalProtocolError)
        assert "job.submit has 5000 bytes" in str(error)


@pytest.mark.parametrize("stubborn", [False, True])
async def test_a_transport_that_does_not_close_is_abandoned(
    clock: VirtualClock, world: World, caplog: pytest.LogCaptureFixture, stubborn: bool
) -> None:
    """Each of two cancellations gets a second."""
    over = asyncio.Event()

    async def close(*, timeout: float) -> None:
        while stubborn and not over.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await over.wait()

    world.wire.close = close  # type: ignore[method-assign]
    world.link.drop(LinkLost("reset"))
    await world.over()
    told = ["a transport does not close; it is abandoned"] if stubborn else []
    assert caplog.messages == told
    assert clock.time() == (2.0 if stubborn else 0.0)
    over.set()
    await clock.settle()


# -- the reader


@pytest.mark.parametrize("aside", [False, True])
async def test_the_number_of_an_unreadable_frame_waits_behind_the_frames_that_are_set_aside(
    clock: VirtualClock, world: World, aside: bool
) -> None:
    """It is missed there; until then, the numbers before it are not missing."""
    world.aside = aside
    world.wire.incoming.put_nowait(b"first")  # the reader awaits it already
    await clock.settle()
    error = RemoteProtocolError("not JSON")
    error.event_seq = 7
    world.wire.incoming.put_nowait(error)
    world.wire.incoming.put_nowait(b"next")
    await clock.settle()
    assert world.reports == [error]
    assert error.event_seq == (None if aside else 7)
    assert world.set_aside_frames == ([b"next"] if aside else [])


@pytest.mark.parametrize("aside", [False, True])
async def test_after_sleep_a_link_is_probed_unless_its_reader_has_stopped(
    clock: VirtualClock, world: World, aside: bool
) -> None:
    """The answer would not be read, so its absence would prove nothing (rule D7)."""
    world.aside = aside
    world.wire.incoming.put_nowait(b"first")
    await clock.settle()
    world.stop = asyncio.get_running_loop().create_future()
    world.wire.incoming.put_nowait(b"second")
    await clock.settle()
    world.link.slept()
    await clock.settle()
    assert world.pings == []
    stop, world.stop = world.stop, None
    stop.set_result(None)
    await clock.settle()
    world.link.slept()
    await clock.settle()
    assert len(world.pings) == 1
    world.pings[0].token.set_exception(RequestTimeout("no answer"))
    assert isinstance(await world.over(), HeartbeatLost)


async def test_the_reader_stops_while_more_answers_wait_than_the_outbox_takes(
    clock: VirtualClock, make: Make
) -> None:
    """Requests do not count: their callers wait for them."""
    world = await make(outbox=10)
    world.wire.writable.clear()
    request: Any = SimpleNamespace()
    for _ in range(3):
        world.link.send(actions.Send(b"x" * 100, request))
    world.send(b"x" * 10)
    for frame in (b"1", b"2", b"3"):
        world.wire.incoming.put_nowait(frame)
        await clock.settle()
    assert world.received_frames == [b"1", b"2", b"3"]
    world.send(b"y")
    for frame in (b"4", b"5", b"6"):
        world.wire.incoming.put_nowait(frame)
        await clock.settle()
    assert world.received_frames[3:] == [b"4"]
    world.wire.writable.set()
    await clock.settle()
    assert world.received_frames[3:] == [b"4", b"5", b"6"]
    assert len(world.wire.sent) == 5


# -- the writer


async def test_a_frame_that_is_too_long_is_reported_and_later_ones_are_sent(
    clock: VirtualClock, world: World
) -> None:
    world.wire.too_long = {b"long"}
    world.send(b"one", b"long", b"two")
    await clock.settle()
    assert world.wire.sent == [b"one", b"two"]
    assert [str(error) for error in world.reports] == [str(RemoteProtocolError("long is too long"))]


async def test_a_request_that_is_too_long_fails_at_once(clock: VirtualClock, world: World) -> None:
    request: Any = SimpleNamespace()
    world.wire.writable.clear()
    world.link.send(actions.Send(b"long", request))
    world.send(b"two")
    world.wire.too_long = {b"long"}
    world.wire.writable.set()
    await clock.settle()
    [(failed, error)] = world.refused
    assert failed is request
    assert str(error) == str(LocalProtocolError("long is too long"))
    assert world.carried_out
    assert world.wire.sent == [b"two"]
    assert world.reports == []


async def test_frames_are_sent_in_order_when_those_before_them_have_waited(
    clock: VirtualClock, world: World
) -> None:
    for number in range(3):
        world.send(b"%d" % number, b"%d+" % number)
        await clock.settle()
    assert world.wire.sent == [b"0", b"0+", b"1", b"1+", b"2", b"2+"]
