"""Links that only look alive, peers that say little, clocks that jump (§6.4, S12, D7)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tenacity import wait_fixed

from arcp_client import Client, JobContext, Live, Reconnect, Runtime
from arcp_client._link.sleep_detector import LOOK_EVERY, Drift, SleepDetector
from arcp_client.errors import HeartbeatLost
from arcp_client.state import LinkState, Reconnecting
from arcp_client.testing import Drop, FaultyConnector, FaultyProxy, VirtualClock
from tests.unit.link.line import Line, rewriting

INTERVAL = 30.0
SOON = Reconnect(wait=wait_fixed(0.5))


@pytest.fixture
async def runtime() -> AsyncIterator[Runtime]:
    async with Runtime(heartbeat_interval=INTERVAL) as runtime:

        @runtime.agent("tick")
        async def tick(input: Any, job: JobContext) -> None:
            for n in range(input["n"]):
                await asyncio.sleep(input["every"])
                await job.progress(n)

        yield runtime


class Veil:
    """Frames that match are lost while it is drawn."""

    def __init__(self, *marks: bytes) -> None:
        self.drawn = False
        self.marks = marks
        self.passed = 0

    def __call__(self, frame: bytes) -> bool:
        lost = self.drawn and (not self.marks or any(mark in frame for mark in self.marks))
        self.passed += not lost
        return lost


def causes(client: Client) -> list[BaseException]:
    seen: list[BaseException] = []

    def note(state: LinkState) -> None:
        if isinstance(state, Reconnecting):
            seen.append(state.cause)

    client.states.subscribe(note)
    return seen


async def test_a_silent_peer_is_dead_after_two_intervals_and_the_next_link_is_fresh(
    clock: VirtualClock, runtime: Runtime
) -> None:
    veil = Veil()
    line = FaultyConnector(Line(runtime), plan=[Drop(veil), Drop(veil, way="out")])
    client = Client(line, reconnect=SOON)
    lost = causes(client)
    async with client:
        veil.drawn = True
        before = clock.time()
        while not lost:
            await clock.advance(1.0)
        assert 2 * INTERVAL <= clock.time() - before <= 2 * INTERVAL + 2
        assert isinstance(lost[0], HeartbeatLost)
        veil.drawn = False
        await client.connected()
        assert client.resumed
        await clock.advance(10 * INTERVAL)
        assert len(lost) == 1
        assert client.state == Live(resumed=True)


async def test_events_count_as_life_where_pongs_never_come(
    clock: VirtualClock, runtime: Runtime
) -> None:
    veil = Veil(b'"session.pong"', b'"session.ping"')
    veil.drawn = True
    client = Client(FaultyConnector(Line(runtime), plan=[Drop(veil)]), reconnect=SOON)
    lost = causes(client)
    async with client:
        job = await client.submit("tick", {"n": 20, "every": INTERVAL})
        assert (await job.result()).value is None
        assert not lost


async def test_pongs_alone_keep_a_link_alive(clock: VirtualClock, runtime: Runtime) -> None:
    veil = Veil(b'"session.ping"')
    veil.drawn = True
    client = Client(FaultyConnector(Line(runtime), plan=[Drop(veil)]), reconnect=SOON)
    lost = causes(client)
    async with client:
        await clock.advance(20 * INTERVAL)
        assert not lost
        assert (await client.ping()) >= 0


async def test_a_chatty_peer_still_hears_from_this_side(
    clock: VirtualClock, runtime: Runtime
) -> None:
    sent = Veil()
    line = FaultyConnector(Line(runtime), plan=[Drop(sent, way="out")])
    features = ("heartbeat", "list_jobs", "subscribe")  # no acks, which would be a sign of life
    async with Client(line, features=features) as client:
        job = await client.submit("tick", {"n": 100, "every": INTERVAL / 10})
        before = sent.passed
        await job.result()
        assert sent.passed - before >= 9


@pytest.mark.parametrize("interval", [..., 0, -1, "soon", None, 1e18, True])
async def test_an_interval_that_says_nothing_means_no_pings_of_this_side(
    clock: VirtualClock, runtime: Runtime, interval: Any
) -> None:
    pings = 0

    def count(frame: bytes) -> bool:
        nonlocal pings
        pings += b'"session.ping"' in frame
        return False

    line = Line(runtime, [rewriting(heartbeat_interval_sec=interval)])
    client = Client(FaultyConnector(line, plan=[Drop(count, way="out")]), reconnect=SOON)
    lost = causes(client)
    async with client:
        await clock.advance(20 * INTERVAL)
        assert not lost
        assert pings == 0


async def test_without_the_feature_nothing_is_sent_and_pings_are_answered(
    clock: VirtualClock, runtime: Runtime
) -> None:
    sent = Veil()
    line = FaultyConnector(Line(runtime), plan=[Drop(sent, way="out")])
    async with Client(line, features=("ack",)):
        before = sent.passed
        await clock.advance(20 * INTERVAL)
        assert sent.passed == before


# -- clocks


def test_only_a_wall_clock_that_runs_ahead_is_a_sleep() -> None:
    drift = Drift(90_100.0, 1000.0)
    assert not drift.slept(90_102.0, 1002.0)
    assert not drift.slept(90_122.0, 1022.0)  # a blocked loop moves both
    assert drift.slept(90_123.0, 1623.0)
    assert not drift.slept(90_125.0, 1625.0)  # told once
    assert not drift.slept(90_127.0, 627.0)  # a clock set back
    assert not drift.slept(90_129.0, 634.0)  # a clock set on by five seconds


class Sleeper:
    """A link that counts how often it is told of a sleep."""

    def __init__(self) -> None:
        self.told = 0

    def slept(self) -> None:
        self.told += 1


async def test_each_sleep_is_told_to_the_links_of_the_moment(clock: VirtualClock) -> None:
    detector = SleepDetector.of(asyncio.get_running_loop())
    first, second = Sleeper(), Sleeper()
    detector.add(first)
    detector.add(second)
    await clock.advance(10 * LOOK_EVERY)
    clock.jump_wall(600.0)
    await clock.advance(LOOK_EVERY)
    assert (first.told, second.told) == (1, 1)
    detector.discard(first)
    clock.jump_wall(600.0)
    await clock.advance(LOOK_EVERY)
    assert (first.told, second.told) == (1, 2)


async def test_a_sleep_is_told_to_a_link_that_comes_after_a_while_without_any(
    clock: VirtualClock,
) -> None:
    detector = SleepDetector.of(asyncio.get_running_loop())
    first, second = Sleeper(), Sleeper()
    detector.add(first)
    detector.discard(first)
    await clock.advance(2 * LOOK_EVERY)
    clock.jump_wall(600.0)
    await clock.advance(2 * LOOK_EVERY)
    detector.add(second)
    await clock.advance(2 * LOOK_EVERY)
    assert second.told == 0
    clock.jump_wall(600.0)
    await clock.advance(LOOK_EVERY)
    assert (first.told, second.told) == (0, 1)


async def test_after_a_sleep_the_peer_is_asked_at_once(
    clock: VirtualClock, runtime: Runtime
) -> None:
    sent = Veil()
    line = FaultyConnector(Line(runtime), plan=[Drop(sent, way="out")])
    client = Client(line, reconnect=SOON)
    lost = causes(client)
    async with client:
        await clock.advance(1.0)
        before = sent.passed
        clock.jump_wall(600.0)
        await clock.advance(2.0)
        assert sent.passed == before + 1
        await clock.advance(INTERVAL / 3)
        assert not lost


async def test_a_link_that_died_in_its_sleep_is_made_anew_at_once(
    clock: VirtualClock, runtime: Runtime
) -> None:
    veil = Veil()
    line = FaultyConnector(Line(runtime), plan=[Drop(veil), Drop(veil, way="out")])
    client = Client(line, reconnect=SOON)
    lost = causes(client)
    async with client:
        await clock.advance(1.0)
        veil.drawn = True
        clock.jump_wall(600.0)
        before = clock.time()
        while not lost:
            await clock.advance(0.5)
        assert clock.time() - before < 8.0  # not two intervals
        assert isinstance(lost[0], HeartbeatLost)
        veil.drawn = False
        await client.connected()
        assert client.resumed


async def test_a_peer_with_a_short_interval_has_no_longer_than_that_to_answer(
    clock: VirtualClock,
) -> None:
    veil = Veil(b'"session.pong"')
    async with Runtime(heartbeat_interval=1.5) as runtime:
        line = FaultyConnector(Line(runtime), plan=[Drop(veil)])
        client = Client(line, reconnect=SOON)
        lost = causes(client)
        async with client:
            await clock.advance(1.0)
            veil.drawn = True
            clock.jump_wall(600.0)
            while not lost:
                await clock.advance(0.25)
            assert "no answer within 1.5 s after this machine slept" in str(lost[0])


async def test_after_a_sleep_a_peer_without_heartbeats_is_not_asked(
    clock: VirtualClock, runtime: Runtime
) -> None:
    sent = Veil()
    line = FaultyConnector(Line(runtime), plan=[Drop(sent, way="out")])
    async with Client(line, features=("ack",)):
        await clock.advance(1.0)
        before = sent.passed
        clock.jump_wall(600.0)
        await clock.advance(INTERVAL)
        assert sent.passed == before


async def test_a_question_after_a_sleep_ends_with_its_link(
    clock: VirtualClock, runtime: Runtime
) -> None:
    pings = 0

    def count(frame: bytes) -> bool:
        nonlocal pings
        found = b'"session.ping"' in frame
        pings += found
        return found

    line = Line(runtime)
    async with Client(FaultyConnector(line, plan=[Drop(count, way="out")]), reconnect=SOON) as one:
        await clock.advance(1.0)
        clock.jump_wall(600.0)
        await clock.advance(2.0)
        assert pings == 1
        await line.cut()
        await clock.advance(1.0)
        await one.connected()
        await clock.advance(INTERVAL / 3)
        assert pings == 1


async def test_wall_clock_steps_alone_change_no_backoff(
    clock: VirtualClock, runtime: Runtime
) -> None:
    line = Line(runtime)
    async with Client(line, reconnect=Reconnect(wait=wait_fixed(10.0))) as client:
        await line.cut()
        await clock.advance(1.0)
        clock.jump_wall(-3600.0)
        await clock.advance(8.0)
        assert len(line.attempts) == 1
        await clock.advance(2.0)
        assert len(line.attempts) == 2
        await client.connected()


# -- over real sockets


@pytest.mark.parametrize("direction", ["down", "up"])
async def test_a_half_open_link_is_left_and_made_anew(direction: Any) -> None:
    async with Runtime(heartbeat_interval=0.1) as runtime:

        @runtime.agent("echo")
        async def echo(input: Any, job: JobContext) -> Any:
            return input

        async with runtime.serve() as server, FaultyProxy(server.url) as proxy:
            client = Client(proxy.url, reconnect=Reconnect(wait=wait_fixed(0.02)))
            lost = causes(client)
            async with client:
                with proxy.half_open(direction):
                    await proxy.until(lambda p: bool(lost))
                    proxy.cut()
                await client.connected()
                assert (await (await client.submit("echo", 1)).result()).value == 1
            assert len(proxy.url) > 0
