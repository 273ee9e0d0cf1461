"""What a client costs that has nothing to do: its tasks, timers, wake-ups and memory."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from unittest import mock

import pytest

from arcp_client import Client, JobContext, Runtime, events
from arcp_client._link.acks import EVERY, MANY, SOON
from arcp_client._link.driver import Driver
from arcp_client.testing import ScriptedRuntime, VirtualClock
from arcp_client.testing.scripted import Emit, Finish, Wait

COUNT = 20
ROOMS = ("_client", "_dispatch", "_link", "_protocol")
HEARTBEAT = 30.0  # seconds


def a_runtime() -> Runtime:
    runtime = Runtime(heartbeat_interval=HEARTBEAT)

    @runtime.agent("say")
    async def say(text: str, job: JobContext) -> str:
        await job.log(text)
        return text

    return runtime


@asynccontextmanager
async def connected(count: int) -> AsyncIterator[list[Client]]:
    runtime = a_runtime()
    async with runtime, runtime.serve("127.0.0.1", 0) as server:
        clients = [Client(server.url) for _ in range(count)]
        for client in clients:
            await client.connect()
        try:
            yield clients
        finally:
            for client in clients:
                await client.close()


def tasks() -> set[str]:
    return {task.get_name() for task in asyncio.all_tasks() if "arcp_client" in task.get_name()}


async def test_an_idle_client_has_a_reader_and_a_task_that_keeps_its_link() -> None:
    async with connected(1):
        await asyncio.sleep(0)
        assert tasks() == {"arcp_client:reconnect", "arcp_client.link:reader"}


async def test_idle_clients_have_one_timer_each_and_one_for_the_clocks_of_all() -> None:
    timers: list[tuple[str, asyncio.TimerHandle]] = []
    loop = asyncio.get_running_loop()

    # In uvloop call_at calls call_later, in asyncio call_later calls call_at.
    inner = "call_at" if isinstance(loop, asyncio.BaseEventLoop) else "call_later"
    start = getattr(loop, inner)

    def noted(when: float, call: Callable[..., Any], *args: Any, **more: Any) -> Any:
        timer = start(when, call, *args, **more)
        if call.__module__.startswith(("arcp_client._link", "arcp_client._dispatch")):
            timers.append((call.__qualname__, timer))
        return timer

    with mock.patch.object(loop, inner, noted):
        async with connected(COUNT):
            waiting = Counter(name for name, timer in timers if not timer.cancelled())
    assert waiting == {"Driver._tick": COUNT, "SleepDetector._look": 1}


async def test_an_idle_client_takes_little_memory() -> None:
    """What only jobs, observers, hooks or a congested link need is made on first use."""
    rooms = [tracemalloc.Filter(True, f"*/arcp_client/{room}/*") for room in ROOMS]

    def held() -> int:
        gc.collect()
        taken = tracemalloc.take_snapshot().filter_traces(rooms)
        return sum(trace.size for trace in taken.traces)

    async with connected(COUNT):  # what the first clients of a process make stays
        tracemalloc.start()
        try:
            before = held()
            async with connected(COUNT):
                assert (held() - before) / COUNT < 13 * 1024
        finally:
            tracemalloc.stop()


async def test_a_lone_event_plans_one_wake_up_for_its_acknowledgement(clock: VirtualClock) -> None:
    ticks: list[float] = []
    tick = Driver._tick

    def noted(driver: Driver) -> None:
        ticks.append(clock.time())
        tick(driver)

    runtime = a_runtime()
    with mock.patch.object(Driver, "_tick", noted):
        async with runtime, Client(runtime) as client:
            await clock.advance(1)
            assert ticks == []
            job = await client.submit("say", "one")
            await job.result()
            asked = clock.time()
            await clock.advance(EVERY + 1)
            assert ticks == [pytest.approx(asked + EVERY)]
            assert client.stats().processed == 2


async def test_an_event_is_acknowledged_when_its_handler_has_finished(clock: VirtualClock) -> None:
    script = [Emit("log", {"level": "info", "message": word}) for word in ("a", "b", "c")]
    may_finish = asyncio.Event()

    async def handle(event: events.Log) -> None:
        if event.message == "b":
            await may_finish.wait()

    def acknowledged() -> list[int]:
        return [frame["payload"]["last_processed_seq"] for frame in runtime.of("session.ack")]

    runtime = ScriptedRuntime(agents={"say": [*script, Finish()]})
    async with runtime, Client(runtime, token="t") as client:
        client.on(events.Log)(handle)
        job = await client.submit("say")
        await clock.advance(10 * EVERY)
        assert acknowledged() == [1]
        may_finish.set()
        await job.result()
        await clock.advance(10 * EVERY)
        assert acknowledged() == [1, 4]


async def test_lone_events_share_an_acknowledgement_and_many_do_not_wait_for_it(
    clock: VirtualClock,
) -> None:
    """S1: 750 ms after an event, or earlier if 700 wait, but not before 250 ms have passed."""

    def acknowledged() -> list[int]:
        return [frame["payload"]["last_processed_seq"] for frame in runtime.of("session.ack")]

    script: list[Any] = []
    for number in range(4):
        words = ["lone"] if number < 2 else ["many"] * MANY
        script += [Wait(str(number)), *(Emit("log", {"message": word}) for word in words)]
    runtime = ScriptedRuntime(agents={"say": [*script, Wait("end"), Finish()]})
    async with runtime, Client(runtime, token="t") as client:
        await client.submit("say")
        runtime.open("0")
        await clock.advance(SOON)
        runtime.open("1")
        await clock.advance(EVERY - SOON)
        assert acknowledged() == [2]
        await clock.advance(EVERY)
        runtime.open("2")  # all within the first 250 ms
        await clock.advance(SOON - 0.01)
        assert acknowledged() == [2]
        await clock.advance(0.01)
        assert acknowledged() == [2, 2 + MANY]
        await clock.advance(EVERY)
        runtime.open("3")
        await clock.advance(SOON)
        assert acknowledged() == [2, 2 + MANY, 2 + 2 * MANY]
        runtime.open("end")


async def test_events_after_an_idle_time_are_acknowledged_too(clock: VirtualClock) -> None:
    """S1: the plan of an acknowledgement ends when all is acknowledged, and begins again."""
    script = [Emit("log", {"level": "info", "message": "first"}), Wait("go"), Finish("done")]
    runtime = ScriptedRuntime(agents={"say": script})
    async with Client(runtime) as client:
        job = await client.submit("say")
        await clock.advance(10 * EVERY)
        before = runtime.of("session.ack")
        runtime.open("go")
        await job.result()
        await clock.advance(10 * EVERY)
        assert before
        assert len(runtime.of("session.ack")) > len(before)
