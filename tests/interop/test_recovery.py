"""The reference runtime loses what a job does after its connection dropped; this client does not.

A job that runs when the socket drops ends for the application with its true result, and one `Gap`
tells of the events that the runtime lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import random
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import arcp
import pytest
from arcp.client import ARCPClient, JobHandle
from tenacity import wait_fixed

from arcp_client import Client, Job, Reconnect, Timeouts, events
from arcp_client._protocol.resume import REFUSALS
from arcp_client.errors import JobCancelled, JobFailed, JobTimedOut, ResultIncomplete
from arcp_client.testing import FaultyProxy, ScriptedRuntime, VirtualClock
from arcp_client.testing.scripted import Emit, Finish, Wait
from tests.interop.capabilities import linked_again
from tests.interop.kit import AT_ONCE, all_of, kinds, numbers
from tests.interop.peers import HeldConnector
from tests.interop.reference import ReferenceRuntime
from tests.interop.rules import rule

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
async def proxy(reference: ReferenceRuntime) -> AsyncIterator[FaultyProxy]:
    """A cable to the reference runtime."""
    async with FaultyProxy(reference.url) as cable:
        yield cable


@contextlib.asynccontextmanager
async def through(proxy: FaultyProxy) -> AsyncIterator[Client]:
    """A client behind it."""
    async with Client(
        proxy.url,
        token="tok-alice",
        timeouts=Timeouts(request=30, close=2),
        reconnect=Reconnect(wait=AT_ONCE),
    ) as client:
        yield client


@pytest.fixture
async def client(proxy: FaultyProxy) -> AsyncIterator[Client]:
    """A client whose cable can be cut."""
    async with through(proxy) as made:
        yield made


async def led_back(reference: ReferenceRuntime, connection: int, *, jobs: int = 1) -> None:
    """Wait until the jobs are followed again, over the connection of that number."""
    await (await reference.connection(connection)).until("job.subscribed", jobs)


def gaps(seen: list[events.Event]) -> list[events.Gap]:
    return [event for event in seen if isinstance(event, events.Gap)]


@rule("python: running jobs")
@rule("note-12")
@rule("accept-22")
async def test_a_running_job_is_followed_again_after_a_drop(
    reference: ReferenceRuntime, proxy: FaultyProxy, client: Client
) -> None:
    puppet = reference.puppet()
    job = await client.submit("puppet", "p", lease={"cost.budget": ["USD:1.00"]})
    await puppet.progress(1, 2)
    await client.ping()  # answered after them
    await proxy.cut()
    await reference.until_ended(1)
    await puppet.progress(3)  # goes nowhere
    await led_back(reference, 2)
    await puppet.progress(4)
    puppet.finish("done")
    seen = await all_of(job)
    assert numbers(seen) == [1, 2, 4]
    assert kinds(seen) == ["progress", "progress", "gap", "progress", "result"]
    assert [(gap.job_id, gap.first, gap.last, gap.reason) for gap in gaps(seen)] == [
        (job.id, 3, None, "lost")
    ]
    assert (await job.result()).value == "done"
    assert job.lease["cost.budget"] == ("USD:1.00",)
    assert client.resumed
    # The numbers go on: no second gap, and nothing waits for what is lost.
    more = await client.submit("echo")
    await asyncio.wait_for(more.result(), 1)
    assert client.stats().gaps == 1


async def test_a_job_is_followed_again_after_every_drop(
    reference: ReferenceRuntime, proxy: FaultyProxy, client: Client
) -> None:
    puppet = reference.puppet()
    job = await client.submit("puppet", "p")
    for n in range(3):
        await puppet.progress(10 * n + 1, 10 * n + 2)
        await client.ping()  # answered after them
        await proxy.cut()
        await reference.until_ended(n + 1)
        await puppet.progress(10 * n + 3)
        await led_back(reference, n + 2)
    puppet.finish("done")
    seen = await all_of(job)
    assert numbers(seen) == [1, 2, 11, 12, 21, 22]
    assert len(gaps(seen)) == 3
    assert (await job.result()).value == "done"


@rule("accept-22")
async def test_a_job_that_ends_while_nobody_is_connected_has_its_result(
    reference: ReferenceRuntime, proxy: FaultyProxy, client: Client
) -> None:
    puppet = reference.puppet()
    job = await client.submit("puppet", "p")
    await puppet.progress(1)
    with proxy.refuse():
        await proxy.cut()
        await reference.until_ended(1)
        await puppet.progress(2)
        puppet.finish({"found": 1})
    seen = await all_of(job)
    assert kinds(seen) == ["progress", "gap", "result"]
    assert (await job.result()).value == {"found": 1}


@pytest.mark.parametrize(
    ("agent", "options", "error"),
    [("forever", {"max_runtime": 1}, JobTimedOut), ("puppet", {}, JobFailed)],
)
async def test_so_has_a_job_that_fails_meanwhile(
    reference: ReferenceRuntime,
    proxy: FaultyProxy,
    client: Client,
    agent: str,
    options: dict[str, float],
    error: type[JobFailed],
) -> None:
    job = await client.submit(agent, "p", **options)  # type: ignore[arg-type]
    with proxy.refuse():
        await proxy.cut()
        await reference.until_ended(1)
        if agent == "puppet":

            async def fail(ctx: object) -> None:
                raise ValueError("out of paper")

            await reference.puppet().started
            reference.puppet().tell(fail)
        await reference.until_over(job.id)
    with pytest.raises(error):
        await job.result()
    assert len(gaps(await all_of(job))) == 1


async def test_a_cancel_after_a_drop_takes_effect_and_is_seen(
    reference: ReferenceRuntime, proxy: FaultyProxy, client: Client
) -> None:
    job = await client.submit("forever")
    await proxy.cut()
    await job.cancel()  # perhaps before the job is followed again
    with pytest.raises(JobCancelled):
        await job.result()


async def test_a_submit_whose_answer_was_lost_is_led_back(
    reference: ReferenceRuntime, proxy: FaultyProxy, client: Client
) -> None:
    puppet = reference.puppet()
    with proxy.half_open("down"):
        submit = asyncio.create_task(client.submit("puppet", "p"))
        await puppet.started
        await proxy.cut()
    await reference.until_ended(1)
    await puppet.progress(1)  # goes nowhere
    job = await submit
    await led_back(reference, 2)
    await puppet.progress(2)
    puppet.finish("done")
    seen = await all_of(job)
    assert numbers(seen) == [2]
    assert len(gaps(seen)) == 1
    assert (await job.result()).value == "done"
    assert len([j async for j in client.jobs()]) == 1


@rule("note-12")
async def test_a_watched_job_is_watched_again_without_loss(
    reference: ReferenceRuntime, proxy: FaultyProxy
) -> None:
    puppet = reference.puppet()
    async with (
        Client(reference.url, token="tok-alice", features=["subscribe"]) as submitter,
        through(proxy) as observer,
    ):
        job = await submitter.submit("puppet", "p")
        await puppet.progress(1, 2)
        view = await observer.watch(job.id, history=True)
        await puppet.progress(3)
        await observer.ping()
        await proxy.cut()
        await puppet.progress(4)  # the submitter's session has it
        await led_back(reference, 3)
        await puppet.progress(5)
        puppet.finish("done")
        assert numbers(await all_of(view)) == [1, 2, 3, 4, 5]
        assert (await view.result()).value == "done"
        await job.result()


async def test_a_job_that_is_watched_from_now_on_gets_what_it_missed_and_none_of_the_past(
    reference: ReferenceRuntime, proxy: FaultyProxy
) -> None:
    puppet = reference.puppet()
    async with (
        Client(reference.url, token="tok-alice", features=["subscribe"]) as submitter,
        through(proxy) as observer,
    ):
        job = await submitter.submit("puppet", "p")
        await puppet.progress(1, 2)
        view = await observer.watch(job.id)
        await puppet.progress(3)
        await observer.ping()
        await proxy.cut()
        await puppet.progress(4)
        await led_back(reference, 3)
        await puppet.progress(5)
        puppet.finish("done")
        assert numbers(await all_of(view)) == [3, 4, 5]
        assert (await view.result()).value == "done"
        await job.result()


async def test_a_chunked_result_with_a_hole_is_incomplete(
    reference: ReferenceRuntime, proxy: FaultyProxy, client: Client
) -> None:
    puppet = reference.puppet()
    job = await client.submit("puppet", "p")
    context = await puppet.started
    stream = context.stream_result()
    await puppet.do(lambda ctx: stream.write("a"))
    await client.ping()
    await proxy.cut()
    await reference.until_ended(1)
    await puppet.do(lambda ctx: stream.write("b"))
    await led_back(reference, 2)
    await puppet.do(lambda ctx: stream.write("c"))
    await puppet.do(lambda ctx: stream.close())
    puppet.finish()
    with pytest.raises(ResultIncomplete) as caught:
        await job.result()
    assert caught.value.missing == (1,)
    assert caught.value.partial == "a"
    assert job.status == "success"


async def test_a_chunked_result_without_its_end_is_incomplete(
    reference: ReferenceRuntime, proxy: FaultyProxy, client: Client
) -> None:
    # What came is a result without a hole, but for the runtime's word on its size.
    puppet = reference.puppet()
    job = await client.submit("puppet", "p")
    context = await puppet.started
    stream = context.stream_result()
    await puppet.do(lambda ctx: stream.write("a"))
    await client.ping()
    with proxy.refuse():
        await proxy.cut()
        await reference.until_ended(1)
        await puppet.do(lambda ctx: stream.write("b"))
        await puppet.do(lambda ctx: stream.close())
        puppet.finish()
    with pytest.raises(ResultIncomplete) as caught:
        await job.result()
    assert caught.value.missing == (1,)


@rule("note-12")
async def test_a_session_that_cannot_be_resumed_is_started_anew() -> None:
    async with (
        ReferenceRuntime(resume_window_sec=0) as served,
        FaultyProxy(served.url) as cable,
        through(cable) as client,
    ):
        puppet = served.puppet()
        job = await client.submit("puppet", "p")
        await puppet.progress(1, 2)
        await client.ping()
        await cable.cut()
        await served.until_ended(1)
        await puppet.progress(3)
        await led_back(served, 2 + REFUSALS)
        await puppet.progress(4)
        puppet.finish("done")
        seen = await all_of(job)
        assert numbers(seen) == [1, 2, 4]
        assert [gap.reason for gap in gaps(seen)] == ["unknown_end"]
        assert (await job.result()).value == "done"
        assert not client.resumed


# ------------------------------------------------------------------ drops at random moments


@dataclass
class Outcomes:
    """What became of a number of jobs."""

    right: int = 0
    incomplete: int = 0
    wrong: list[str] = field(default_factory=list)


def text_of(name: str, steps: int) -> str:
    """What the agent ``steps`` makes."""
    return "".join(f"{name}-{n};" for n in range(steps))


async def cut_at_random(proxy: FaultyProxy, chance: random.Random, times: int) -> None:
    for _ in range(times):
        await asyncio.sleep(chance.uniform(0.02, 0.25))
        await proxy.cut()


async def check(job: Job, expected: str, outcomes: Outcomes) -> None:
    try:
        value = (await asyncio.wait_for(job.result(), 20)).value
    except ResultIncomplete:
        outcomes.incomplete += 1
    except Exception as error:
        outcomes.wrong.append(f"{job.id}: {error!r}")
    else:
        if value == expected:
            outcomes.right += 1
        else:
            outcomes.wrong.append(f"{job.id}: {value!r}")


async def drive(
    reference: ReferenceRuntime, seed: int, *, jobs: int, cuts: int, chunked: bool
) -> Outcomes:
    """One client, some jobs, its cable cut at random moments."""
    chance = random.Random(seed)
    outcomes = Outcomes()
    async with FaultyProxy(reference.url) as proxy, through(proxy) as client:
        cutting = asyncio.create_task(cut_at_random(proxy, chance, cuts))
        checks = []
        for n in range(jobs):
            name, steps = f"{seed}.{n}", chance.randrange(3, 12)
            work = {"name": name, "n": steps, "pause": 0.03, "chunked": chunked}
            job = await client.submit("steps", work)
            checks.append(asyncio.create_task(check(job, text_of(name, steps), outcomes)))
            await asyncio.sleep(chance.uniform(0, 0.05))
        await asyncio.gather(*checks)
        await cutting
        assert client.open_jobs() == []
    return outcomes


async def their_client_drives(reference: ReferenceRuntime, seed: int, jobs: int, cuts: int) -> int:
    """The same jobs and cuts with the reference client; gives how many results it got.

    It makes no new connection by itself: here it is told to resume whenever a submit fails.
    """
    chance = random.Random(seed)
    got = 0
    handles: list[JobHandle] = []
    async with FaultyProxy(reference.url) as proxy:
        client = ARCPClient(client=arcp.ClientInfo(name="theirs", version="1"), token="tok-alice")
        welcome = await client.connect(await arcp.WebSocketTransport.connect(proxy.url))
        cutting = asyncio.create_task(cut_at_random(proxy, chance, cuts))
        for n in range(jobs):
            name, steps = f"{seed}.{n}", chance.randrange(3, 12)
            work = {"name": name, "n": steps, "pause": 0.03, "chunked": False}
            for _ in range(3):
                try:
                    async with asyncio.timeout(1):
                        handles.append(await client.submit(agent="steps", input=work))
                    break
                except Exception:
                    with contextlib.suppress(Exception):
                        transport = await arcp.WebSocketTransport.connect(proxy.url)
                        resume = arcp.SessionResume(
                            session_id=welcome.session_id,
                            resume_token=welcome.resume_token,
                            last_event_seq=client.latest_event_seq,
                        )
                        welcome = await client.resume(transport, resume=resume)
            await asyncio.sleep(chance.uniform(0, 0.05))
        await cutting
        for handle in handles:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(1):
                    await handle.done
                    got += 1
        with contextlib.suppress(Exception):
            await client.close()
    return got


SEEDS = range(10)
LAST_SEED = 200 if "ARCP_SLOW" in os.environ else 140


async def test_inline_results_survive_drops_at_random_moments(
    reference: ReferenceRuntime,
) -> None:
    runs = await asyncio.gather(
        *(drive(reference, seed, jobs=5, cuts=3, chunked=False) for seed in SEEDS)
    )
    assert [wrong for run in runs for wrong in run.wrong] == []
    assert sum(run.right for run in runs) == 50


async def test_their_own_client_for_comparison(
    reference: ReferenceRuntime,
    asyncio_errors: list[str],
    record_property: Callable[[str, object], None],
) -> None:
    got = await asyncio.gather(
        *(their_client_drives(reference, seed, jobs=5, cuts=3) for seed in SEEDS)
    )
    gc.collect()
    asyncio_errors.clear()  # exceptions of its that nobody retrieves
    record_property("results of 50 that the reference client got", sum(got))
    assert sum(got) < 50


async def test_events_come_once_and_in_order_however_the_cable_is_cut(
    reference: ReferenceRuntime,
) -> None:
    async def one(seed: int) -> Outcomes:
        chance = random.Random(seed)
        outcomes = Outcomes()
        seen: dict[str, list[float]] = {}
        ends: list[str | None] = []
        async with FaultyProxy(reference.url) as proxy, through(proxy) as client:

            @client.on(events.Progress)
            async def keep(event: events.Progress) -> None:
                seen.setdefault(event.job_id or "", []).append(event.current)

            @client.on(events.Completed)
            async def end(event: events.Completed) -> None:
                ends.append(event.job_id)

            for _ in range(6):
                proxy.cut_after(
                    chance.randrange(50, 6000), direction="down" if chance.random() < 0.5 else "up"
                )
            checks = []
            for n in range(6):
                name, steps = f"{seed}.{n}", chance.randrange(3, 25)
                work = {"name": name, "n": steps, "pause": 0.02, "chunked": False}
                job = await client.submit("steps", work)
                checks.append(check(job, text_of(name, steps), outcomes))
            await asyncio.gather(*checks)
        for numbers_of_job in seen.values():
            assert numbers_of_job == sorted(set(numbers_of_job))
        assert len(ends) == len(set(ends)) == 6
        return outcomes

    runs = await asyncio.gather(*(one(seed) for seed in SEEDS))
    assert [wrong for run in runs for wrong in run.wrong] == []
    assert sum(run.right for run in runs) == 60


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.usefixtures("untraced")
async def test_many_more_drops(reference: ReferenceRuntime) -> None:
    for start in range(100, LAST_SEED, 20):
        seeds = range(start, start + 20)
        runs = await asyncio.gather(
            *(drive(reference, s, jobs=5, cuts=4, chunked=s % 2 == 0) for s in seeds)
        )
        assert [wrong for run in runs for wrong in run.wrong] == []


async def test_chunked_results_are_complete_or_said_to_be_incomplete(
    reference: ReferenceRuntime,
) -> None:
    runs = await asyncio.gather(
        *(drive(reference, seed, jobs=2, cuts=2, chunked=True) for seed in SEEDS)
    )
    assert [wrong for run in runs for wrong in run.wrong] == []
    assert sum(run.right + run.incomplete for run in runs) == 20


# ------------------------------------------------------------------ gaps


TOLERANT = ("python", "typescript", "csharp", "ruby")


@rule("note-12")
@pytest.mark.parametrize("drops", [1, 3])
@pytest.mark.parametrize("history", [True, False])
@pytest.mark.parametrize("runtime", TOLERANT)
def test_s22_a_watcher_whose_link_drops_is_told_of_no_gap_where_nothing_is_missing(
    runtime: str, history: bool, drops: int
) -> None:
    """Events come before each drop, while the link is gone, and after it."""
    if runtime == "ruby" and not history:
        pytest.skip("its events have no times: the past is not told from what was missed")

    async def scenario() -> None:
        numbers = range(3 * drops + 2)
        steps = [s for n in numbers for s in (Emit("progress", {"current": n}), Wait(f"go {n}"))]
        agents = {"counts": [*steps, Finish("done")]}
        async with ScriptedRuntime(runtime, agents=agents) as played:
            line = HeldConnector(played)
            reconnect = Reconnect(wait=wait_fixed(0.01))
            async with (
                Client(played, token="t") as submitter,
                Client(line, token="t", reconnect=reconnect) as observer,
            ):
                job = await submitter.submit("counts")
                owned, at = job.events(events.Progress), -1

                async def step() -> None:
                    nonlocal at
                    at += 1
                    assert (await anext(owned)).current == at  # type: ignore[union-attr]
                    played.open(f"go {at}")

                view = await observer.watch(job.id, history=history)
                seen: list[events.Event] = []
                stream = aiter(view)
                await step()
                for _ in range(drops):
                    await step()
                    await asyncio.sleep(0.1)  # the observer has it
                    async with linked_again(observer):
                        line.hold()
                        await line.cut()
                        await played.until_left(1)
                        await step()
                        line.release()
                    await step()
                await step()
                played.open(f"go {at + 1}")
                async for event in stream:
                    seen.append(event)  # noqa: PERF401
                got = [event.current for event in seen if isinstance(event, events.Progress)]
                assert got == list(numbers)[0 if history else 1 :]
                assert [event for event in seen if isinstance(event, events.Gap)] == []

    VirtualClock().run(scenario())


def test_s22_the_gap_of_an_owner_stands_between_what_came_and_what_comes() -> None:
    async def scenario() -> None:
        numbers = range(4)
        steps = [s for n in numbers for s in (Emit("progress", {"current": n}), Wait(f"go {n}"))]
        agents = {"counts": [*steps, Finish("done")]}
        async with ScriptedRuntime("python", agents=agents) as played:
            line = HeldConnector(played)
            async with Client(
                line, token="t", reconnect=Reconnect(wait=wait_fixed(0.01))
            ) as client:
                job = await client.submit("counts")
                await anext(aiter(job.events(events.Progress)))
                async with linked_again(client):
                    line.hold()
                    await line.cut()
                    await played.until_left()
                    played.open("go 0")  # number 1 goes nowhere
                    await asyncio.sleep(0.1)
                    line.release()
                for number in numbers:
                    played.open(f"go {number}")
                seen = [getattr(event, "current", event.kind) async for event in job]
                assert seen == [0, "gap", 2, 3, "result"]

    VirtualClock().run(scenario())
