"""Time that passes only when there is nothing else to do."""

from __future__ import annotations

import asyncio
import socket
import sys
import time

import pytest

from arcp_client.testing import VirtualClock
from arcp_client.transports import StdioConnector, WebSocketConnector
from tests.unit.transports.kit import websocket_server


def test_hours_of_sleep_take_no_time() -> None:
    clock = VirtualClock()

    async def a_day() -> str:
        for _ in range(24):
            await asyncio.sleep(3600)
        return "done"

    assert clock.run(a_day()) == "done"
    assert clock.time() == 86_400


def test_years_take_no_time_either_though_floats_grow_coarse() -> None:
    clock = VirtualClock(grace=0.0)  # threads of other tests may run: a grace each day is minutes

    async def a_century() -> None:
        for year in range(100):
            await asyncio.sleep(365 * 86_400 + year * 0.001)

    clock.run(a_century())
    assert clock.time() == pytest.approx(100 * 365 * 86_400, rel=1e-6)


def test_a_clock_goes_on_where_the_last_run_left_it() -> None:
    clock = VirtualClock()
    for n in (1, 2, 3):
        clock.run(asyncio.sleep(10))
        assert clock.time() == 10 * n


async def test_the_fixture_gives_a_loop_that_goes_by_the_clock(clock: VirtualClock) -> None:
    assert asyncio.get_running_loop().time() == clock.time() == 0
    await asyncio.sleep(5)
    assert asyncio.get_running_loop().time() == clock.time() == 5


async def test_without_it_time_is_real() -> None:
    with pytest.raises(RuntimeError, match="has real time"):
        VirtualClock.current()


async def test_timers_fire_in_order_at_their_own_times(clock: VirtualClock) -> None:
    fired: list[tuple[str, float]] = []
    loop = asyncio.get_running_loop()
    for name, delay in (("late", 3600.0), ("early", 0.5), ("middle", 60.0)):
        loop.call_later(delay, lambda name=name: fired.append((name, clock.time())))
    await clock.advance(3600)
    assert fired == [("early", 0.5), ("middle", 60.0), ("late", 3600.0)]


async def test_advance_lets_everything_run_that_falls_due_and_nothing_later(
    clock: VirtualClock,
) -> None:
    ticks: list[float] = []

    async def beat() -> None:
        while True:
            await asyncio.sleep(1)
            for _ in range(10):  # what a timer starts may take several turns of the loop
                await asyncio.sleep(0)
            ticks.append(clock.time())

    task = asyncio.create_task(beat())
    await clock.advance(3)
    assert ticks == [1, 2, 3]
    assert clock.time() == 3
    task.cancel()


async def test_settling_takes_no_time(clock: VirtualClock) -> None:
    done: list[int] = []

    async def busy() -> None:
        for _ in range(100):
            await asyncio.sleep(0)
        done.append(1)

    task = asyncio.create_task(busy())
    await clock.settle()
    assert done == [1]
    assert clock.time() == 0
    await task


async def test_a_timeout_ends_after_its_time(clock: VirtualClock) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(7200):
            await asyncio.Event().wait()
    assert clock.time() == 7200


async def test_the_wall_clock_follows_and_jumps_alone_when_the_machine_sleeps(
    clock: VirtualClock,
) -> None:
    before = time.time()
    await asyncio.sleep(100)
    assert time.time() - before == pytest.approx(100)
    timer = asyncio.create_task(asyncio.sleep(10))
    clock.jump_wall(3600)
    await clock.settle()
    assert time.time() - before == pytest.approx(3700)
    assert clock.time() == 100
    assert not timer.done()
    await timer


def test_the_real_wall_clock_is_back_afterwards() -> None:
    real = time.time
    clock = VirtualClock()
    clock.run(asyncio.sleep(1))
    assert time.time is real


async def test_a_thread_of_the_executor_is_waited_for(clock: VirtualClock) -> None:
    async with asyncio.timeout(5):
        await asyncio.to_thread(time.sleep, 0.05)
    assert clock.time() < 5


def test_threads_of_the_executor_have_real_time_to_end() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.run_in_executor(None, time.sleep, 0.3).add_done_callback(lambda _: None)
        loop.call_later(3600, lambda: None)

    VirtualClock().run(main())


async def test_sockets_of_this_process_go_on_in_real_time(clock: VirtualClock) -> None:
    async with websocket_server() as server:
        near = await WebSocketConnector(server.url).connect()
        far = await server.accepted()
        async with asyncio.timeout(10):
            for n in range(200):
                await near.send(b"%d" % n)
                assert await far.receive() == b"%d" % n
        assert clock.time() == 0
        await asyncio.sleep(3600)
        await near.send(b"an hour later")
        assert await far.receive() == b"an hour later"
        await asyncio.gather(near.close(), far.close())


async def test_sockets_that_stay_silent_do_not_hold_time_up(clock: VirtualClock) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.get_running_loop().sock_recv(ours, 1), 3600)
    assert clock.time() == 3600


def test_the_grace_for_what_runs_elsewhere_can_be_longer() -> None:
    clock = VirtualClock(grace=5.0)

    async def talk_to_a_child() -> bytes:
        code = "import sys; sys.stdout.write(sys.stdin.readline())"
        link = await StdioConnector([sys.executable, "-S", "-E", "-c", code]).connect()
        async with asyncio.timeout(60):
            await link.send(b"{}")
            frame = await link.receive()
        await link.close()
        return frame

    assert clock.run(talk_to_a_child()) == b"{}"
    assert clock.time() < 60
