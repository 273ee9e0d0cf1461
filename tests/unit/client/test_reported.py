"""Failures that users of other clients reported, each provoked against this one."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
from pathlib import Path
from typing import Any

import pytest
from tenacity import stop_after_attempt, wait_fixed, wait_none

from arcp_client import (
    Client,
    Closed,
    JobContext,
    Reconnect,
    Runtime,
    StdioConnector,
    Timeouts,
    events,
)
from arcp_client.errors import ArcpError, JobCancelled, LinkLost
from arcp_client.testing import FaultyConnector, VirtualClock
from arcp_client.transports.base import Transport
from tests.unit.link.line import Line

pytestmark = pytest.mark.usefixtures("forked")

CHILD = Path(__file__).with_name("stdio_child.py")


def child(what: str) -> StdioConnector:
    return StdioConnector([sys.executable, str(CHILD), what])


# ------------------------------------------------------------------ a child's end


@pytest.mark.parametrize(
    ("what", "code", "said"), [("exit 0", 0, ""), ("exit 1", 1, "last words"), ("SIGKILL", -9, "")]
)
async def test_whoever_waits_learns_of_the_childs_end_and_how_it_ended(
    what: str, code: int, said: str
) -> None:
    once = Reconnect(wait=wait_none(), stop=stop_after_attempt(1), classify=lambda _: False)
    client = Client(child(what), reconnect=once, timeouts=Timeouts(request=60, close=1))
    await client.connect()
    job = await client.submit("a")
    iterator = aiter(job)
    await anext(iterator)
    waiting: list[asyncio.Future[Any]] = [
        asyncio.ensure_future(job.result()),
        asyncio.ensure_future(anext(iterator)),  # type: ignore[arg-type]
        asyncio.ensure_future(client.ping()),
        asyncio.ensure_future(anext(aiter(client.jobs()))),  # type: ignore[arg-type]
        asyncio.ensure_future(client.submit("a")),
    ]
    outcomes = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 20)
    assert all(isinstance(outcome, ArcpError) for outcome in outcomes), outcomes
    assert isinstance(client.state, Closed)
    cause = client.state.cause
    assert isinstance(cause, LinkLost)
    assert cause.exit_code == code
    assert said in cause.stderr
    await client.close()


# ------------------------------------------------------------------ noise on its output


async def test_what_a_child_prints_beside_its_frames_is_reported_and_passed_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, "arcp_client"):
        async with Client(child("noise"), timeouts=Timeouts(close=1)) as client:
            job = await client.submit("a")
            assert [event.kind async for event in job] == ["log", "result"]
            assert (await job.result()).value == "done"
            assert client.stats().reconnects == 0
            assert client.stats().gaps == 0
    reported = "\n".join(record.getMessage() for record in caplog.records)
    for piece in ("not JSON", "array", "string"):
        assert piece in reported


# ------------------------------------------------------------------ an answer that fails


async def test_a_pong_that_cannot_be_sent_costs_the_link(clock: VirtualClock) -> None:
    class Mute:
        """Frames of this side that hold a pong fail, as if the socket had just died."""

        def __init__(self, inner: Transport) -> None:
            self._inner = inner
            self.receive = inner.receive
            self.close = inner.close

        async def send(self, frame: bytes) -> None:
            if b"session.pong" in frame:
                raise RuntimeError("the network driver is gone")
            await self._inner.send(frame)

    class Muting(Line):
        async def connect(self) -> Transport:
            link = await super().connect()
            return Mute(link) if len(self.up) == 1 else link

    async with Runtime(heartbeat_interval=30) as runtime:
        line = Muting(runtime)
        features = ["list_jobs", "heartbeat"]
        async with Client(
            line, features=features, reconnect=Reconnect(wait=wait_fixed(1))
        ) as client:
            await clock.advance(100)
            await client.connected()
            assert client.stats().reconnects == 1
            assert client.resumed
            assert "network driver" in str(client.stats().last_disconnect)


# ------------------------------------------------------------------ who closes what


async def test_clients_are_opened_used_and_closed_by_different_tasks_in_any_order(
    runtime: Runtime,
) -> None:
    async def opened() -> list[Client]:
        clients = [Client(runtime) for _ in range(3)]
        for client in clients:
            await client.connect()
        return clients

    first, second, third = await asyncio.create_task(opened())
    job = await asyncio.create_task(first.submit("echo", "x"))
    assert (await job.result()).value == "x"
    await asyncio.create_task(first.close())
    assert (await (await third.submit("echo", 3)).result()).value == 3
    await asyncio.gather(second.close(), asyncio.create_task(third.close()))
    for client in (first, second, third):
        assert isinstance(client.state, Closed)


async def test_a_client_entered_in_one_task_is_left_in_another(runtime: Runtime) -> None:
    client = await asyncio.create_task(Client(runtime).__aenter__())
    await client.ping()
    await asyncio.create_task(client.__aexit__(None, None, None))
    assert isinstance(client.state, Closed)


# ------------------------------------------------------------------ a submit given up


async def test_a_submit_that_was_given_up_leaves_no_job_that_nobody_can_cancel(
    runtime: Runtime,
) -> None:
    async with Client(runtime) as client:
        for ticks in range(12):  # before it is sent, on its way, accepted
            submitting = asyncio.ensure_future(client.submit("stuck"))
            for _ in range(ticks):
                await asyncio.sleep(0)
            submitting.cancel()
            await asyncio.wait({submitting})
            await client.ping()  # it was answered, if it was sent
            listed = [job.job_id async for job in client.jobs(status=["pending", "running"])]
            known = client.open_jobs()
            assert [job.id for job in known] == listed
            for job in known:
                await job.cancel()
                with pytest.raises(JobCancelled):
                    await job.result()


# ------------------------------------------------------------------ the reader stops


@pytest.mark.parametrize("how", ["close", "detach", "leave"])
async def test_the_reader_stops_at_any_turn_of_the_loop_while_messages_come(
    runtime: Runtime, how: str
) -> None:
    for ticks in range(51):
        line = Line(runtime)
        client = Client(line)
        await client.connect()
        await client.submit("say", [str(n) for n in range(50)])
        for _ in range(ticks):
            await asyncio.sleep(0)
        if how == "leave":
            leaving = asyncio.ensure_future(client.__aexit__(None, None, None))
            await asyncio.sleep(0)
            leaving.cancel()
            await asyncio.wait({leaving})
            await client.close()
        else:
            await getattr(client, how)()
        assert isinstance(client.state, Closed)
        names = [t.get_name() for t in asyncio.all_tasks() if "arcp_client.link" in t.get_name()]
        assert names == [], f"after {ticks} turns"
        assert len(line.attempts) == 1  # that the reader was cancelled is no lost link


# ------------------------------------------------------------------ the garbage collector


async def test_what_runs_is_held_by_somebody_though_the_collector_comes_at_every_moment(
    runtime: Runtime,
) -> None:
    seen: list[str] = []
    async with Client(runtime) as client:

        @client.on(events.Log)
        async def handle(event: events.Log) -> None:
            gc.collect()
            await asyncio.sleep(0)
            gc.collect()
            seen.append(event.message)

        gc.collect()
        jobs = [await client.submit("say", [f"{n}.{k}" for k in range(10)]) for n in range(3)]
        gc.collect()
        waiting = [asyncio.ensure_future(job.result()) for job in jobs]
        await asyncio.sleep(0)
        gc.collect()
        assert [result.value for result in await asyncio.gather(*waiting)] == [10, 10, 10]
    for n in range(3):
        mine = [message for message in seen if message.startswith(f"{n}.")]
        assert mine == [f"{n}.{k}" for k in range(10)]


# ------------------------------------------------------------------ one generation (S3)


async def test_s3_of_every_link_the_one_before_is_closed_first(
    clock: VirtualClock, runtime: Runtime
) -> None:
    class Counting(Line):
        open = 0
        most = 0

        async def connect(self) -> Transport:
            link = await super().connect()
            type(self).open += 1
            type(self).most = max(self.most, self.open)
            close = link.close

            async def closing(**options: Any) -> None:
                link.close = close  # type: ignore[method-assign]
                type(self).open -= 1
                await close(**options)

            link.close = closing  # type: ignore[method-assign]
            return link

    line = Counting(runtime)
    async with Client(FaultyConnector(line), reconnect=Reconnect(wait=wait_fixed(1))) as client:
        for _ in range(20):
            await line.cut()
            await clock.advance(2)
            await client.connected()
        await client.ping()
    assert (line.most, line.open) == (1, 0)


# ------------------------------------------------------------------ two drops


async def test_each_resume_goes_on_from_what_the_last_one_brought() -> None:
    asked: list[int] = []
    gates = [asyncio.Event() for _ in range(3)]
    async with Runtime() as runtime:

        @runtime.agent("steps")
        async def steps(input: Any, job: JobContext) -> str:
            for n, gate in enumerate(gates):
                await gate.wait()
                for k in range(4):
                    await job.progress(4 * n + k + 1)
            return "done"

        class Listening(Line):
            async def connect(self) -> Transport:
                link = await super().connect()
                send = link.send

                async def hearing(frame: bytes) -> None:
                    if b'"session.hello"' in frame and b'"resume"' in frame:
                        text = frame.decode()
                        asked.append(int(text.rpartition('"last_event_seq":')[2].split("}")[0]))
                    await send(frame)

                link.send = hearing  # type: ignore[method-assign]
                return link

        line = Listening(runtime)
        async with Client(line, reconnect=Reconnect(wait=wait_none())) as client:
            job = await client.submit("steps")
            progress = aiter(job.events(events.Progress))
            seen: list[float] = []
            for gate in gates:
                gate.set()
                seen += [(await anext(progress)).current for _ in range(4)]
                await line.cut()
                await client.connected()
                await client.ping()
            assert (await job.result()).value == "done"
    assert seen == list(range(1, 13))
    assert asked[:2] == [4, 8]
