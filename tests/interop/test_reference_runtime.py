"""This client against the reference runtime, over a real loopback socket."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from arcp_client import Client, Reconnect, Timeouts, events
from arcp_client.errors import (
    AgentNotFound,
    AgentVersionNotFound,
    DuplicateKey,
    InvalidRequest,
    JobCancelled,
    JobFailed,
    JobNotFound,
    JobTimedOut,
    LeaseExpired,
    PermissionDenied,
    Unauthenticated,
    UnknownCode,
)
from tests.interop.kit import AT_ONCE, all_of, kinds, numbers
from tests.interop.reference import ReferenceRuntime
from tests.interop.rules import rule

FEATURES = ["heartbeat", "ack", "list_jobs", "subscribe", "lease_expires_at", "cost.budget"]


@contextlib.asynccontextmanager
async def another(served: ReferenceRuntime, token: str = "tok-alice") -> AsyncIterator[Client]:
    """One more client of the same runtime."""
    async with Client(
        served.url,
        token=token,
        features=FEATURES,
        timeouts=Timeouts(request=5, close=2),
        reconnect=Reconnect(wait=AT_ONCE),
    ) as client:
        yield client


# ------------------------------------------------------------------ the session


async def test_the_welcome_is_recognised_and_read(client: Client) -> None:
    session = client.session
    assert session.dialect == "python"
    assert session.runtime.name == "reference"
    assert session.heartbeat_interval == 30
    assert session.resume_window == 600
    agents = {agent.name: agent for agent in session.agents}
    assert agents["versioned"].versions == ("1.0.0", "2.0.0")
    assert agents["versioned"].default == "1.0.0"
    assert agents["echo"].versions == ()
    assert "subscribe" in session.features


@rule("send-5")
async def test_close_says_bye_and_nothing_else(reference: ReferenceRuntime) -> None:
    async with another(reference):
        pass
    await reference.until_ended(1)
    heard = [frame["type"] for frame in reference.connections[0].heard]
    assert heard == ["session.hello", "session.bye"]
    assert not [f for f in reference.connections[0].said if f["type"] == "session.error"]


async def test_a_refused_token_fails_the_connect(reference: ReferenceRuntime) -> None:
    client = Client(reference.url, token="wrong")
    with pytest.raises(Unauthenticated, match="invalid bearer token"):
        await client.connect()
    assert len(reference.connections) == 1
    await client.close()


async def test_a_provider_is_asked_once_more(reference: ReferenceRuntime) -> None:
    given = iter(["wrong", "tok-alice"])
    async with Client(reference.url, token=lambda: next(given)) as client:
        assert client.session.dialect == "python"
    assert len(reference.connections) == 2


async def test_ping(client: Client) -> None:
    assert 0 < await client.ping() < 5


async def test_a_silent_session_is_kept_alive_by_pings() -> None:
    async with ReferenceRuntime(heartbeat_interval_sec=1) as served, another(served) as client:
        job = await client.submit("forever")
        await served.connections[0].until("session.pong", 2)
        assert client.stats().reconnects == 0
        await job.cancel()


# ------------------------------------------------------------------ jobs


async def test_submit_events_and_result(client: Client) -> None:
    job = await client.submit("echo", {"a": [1, None, "ü"]})
    seen = await all_of(job)
    assert kinds(seen) == [
        "status",
        "log",
        "thought",
        "tool_call",
        "tool_result",
        "progress",
        "metric",
        "result",
    ]
    assert [event.seq for event in seen] == list(range(1, 9))
    result = await job.result()
    assert result.value == {"echoed": {"a": [1, None, "ü"]}}
    assert result.completed_at is not None
    assert job.status == "success"
    assert job.agent == "echo"


async def test_versions(client: Client) -> None:
    assert (await (await client.submit("versioned@2.0.0")).result()).value == "versioned@2.0.0"
    assert (await (await client.submit("versioned")).result()).value == "versioned@1.0.0"


async def test_a_result_of_nothing_is_none(client: Client, reference: ReferenceRuntime) -> None:
    job = await client.submit("puppet", "p")
    reference.puppet().finish(None)
    assert (await job.result()).value is None


async def test_a_chunked_text(client: Client) -> None:
    pieces = ["one ", "zwei äöü ", "😀", ""]
    job = await client.submit("chunks", pieces)
    result = await job.result()
    assert result.value == "".join(pieces)
    assert result.size == len("".join(pieces).encode())
    assert b"".join([chunk async for chunk in job.chunks()]).decode() == result.value


@rule("accept-17")
async def test_a_chunked_result_of_bytes(client: Client) -> None:
    # Its last chunk is an empty text: the encoding may change within one result.
    job = await client.submit("chunks", [{"hex": "00ff"}, {"hex": "10" * 3000}])
    result = await job.result()
    assert result.value == b"\x00\xff" + b"\x10" * 3000
    assert result.size == 3002


@rule("accept-15")
async def test_cancel_comes_as_a_result(client: Client) -> None:
    job = await client.submit("forever")
    await job.cancel("no longer needed")
    with pytest.raises(JobCancelled):
        await job.result()
    assert job.status == "cancelled"
    last = (await all_of(job))[-1]
    assert isinstance(last, events.Failed)
    assert last.status == "cancelled"


async def test_cancel_of_an_ended_job_returns(client: Client) -> None:
    job = await client.submit("echo")
    await job.result()
    await job.cancel()


@rule("accept-15")
async def test_timeout_comes_as_a_result(client: Client) -> None:
    job = await client.submit("forever", max_runtime=0.5)
    with pytest.raises(JobTimedOut):
        await job.result()
    assert job.status == "timed_out"


async def test_a_crashing_agent(client: Client) -> None:
    job = await client.submit("crash", "out of paper")
    with pytest.raises(JobFailed, match="out of paper") as caught:
        await job.result()
    assert caught.value.code == "INTERNAL_ERROR"
    assert caught.value.retryable


async def test_a_lease_that_runs_out(client: Client) -> None:
    job = await client.submit("forever", expires_at=datetime.now(UTC) + timedelta(seconds=0.3))
    with pytest.raises(LeaseExpired):
        await job.result()


@rule("accept-11")
async def test_budgets_come_as_texts(client: Client, reference: ReferenceRuntime) -> None:
    job = await client.submit("puppet", "p", lease={"cost.budget": ["USD:1.00"]})
    assert job.budget == {"USD": Decimal("1.00")}
    assert job.lease["cost.budget"] == ("USD:1.00",)
    spent = {"name": "cost.model", "value": 0.42, "unit": "USD"}
    await reference.puppet().do(lambda ctx: ctx.metric(spent))
    reference.puppet().finish()
    await job.result()
    assert job.budget == {"USD": Decimal("0.58")}


async def test_a_large_input_and_a_large_result(client: Client) -> None:
    text = "x" * 500_000
    assert (await (await client.submit("echo", text)).result()).value == {"echoed": text}


async def test_many_jobs_side_by_side(client: Client) -> None:
    seen: list[events.Event] = []

    @client.on(events.Event)
    async def keep(event: events.Event) -> None:
        seen.append(event)

    jobs = await asyncio.gather(*(client.submit("echo", n) for n in range(20)))
    results = [(await job.result()).value for job in jobs]
    assert results == [{"echoed": n} for n in range(20)]
    assert [event.seq for event in seen] == list(range(1, 161))
    assert client.stats().gaps == 0
    assert client.stats().repeated == 0


# ------------------------------------------------------------------ refusals


async def test_unknown_agents_and_versions(client: Client) -> None:
    with pytest.raises(AgentNotFound, match="nobody"):
        await client.submit("nobody")
    with pytest.raises(AgentVersionNotFound):
        await client.submit("versioned@9.9.9")


async def test_what_the_runtime_cannot_read_is_an_internal_error_of_its(client: Client) -> None:
    # It checks the bound of a day only while it reads the message.
    with pytest.raises(UnknownCode) as caught:
        await client.submit("echo", max_runtime=86_401)
    assert caught.value.code == "INTERNAL_ERROR"
    with pytest.raises((InvalidRequest, UnknownCode)):
        await client.submit("echo", expires_at=datetime(2001, 1, 1, tzinfo=UTC))
    assert (await (await client.submit("echo", 1)).result()).value == {"echoed": 1}


@rule("accept-7", "send-11")
async def test_an_error_without_correlation_hits_only_its_own_request(client: Client) -> None:
    running = await client.submit("forever")
    good, bad, listed = await asyncio.gather(
        client.submit("echo", "good"),
        client.submit("nobody"),
        all_of(client.jobs()),
        return_exceptions=True,
    )
    assert isinstance(bad, AgentNotFound)
    assert not isinstance(good, BaseException)
    assert not isinstance(listed, BaseException)
    assert (await good.result()).value == {"echoed": "good"}
    assert running.status == "running"
    await running.cancel()


async def test_a_job_of_nobody_cannot_be_watched(client: Client) -> None:
    with pytest.raises(JobNotFound):
        await client.watch("job_01M8FG84H15QE626XA6BZCP6RB")


async def test_a_job_of_somebody_else_cannot_be_watched(
    client: Client, reference: ReferenceRuntime
) -> None:
    job = await client.submit("forever")
    async with another(reference, "tok-bob") as bob:
        with pytest.raises(PermissionDenied):
            await bob.watch(job.id)
        assert await all_of(bob.jobs()) == []
    await job.cancel()


# ------------------------------------------------------------------ listing


async def test_a_listing_of_several_pages(client: Client, reference: ReferenceRuntime) -> None:
    jobs = [await client.submit("echo", n) for n in range(120)]
    for job in jobs:
        await job.result()
    listed = await all_of(client.jobs())
    assert [entry.job_id for entry in listed] == [job.id for job in jobs]
    assert {entry.status for entry in listed} == {"success"}
    assert listed[0].agent == "echo"
    assert listed[0].created_at is not None
    assert len(reference.connections[0].of("session.list_jobs")) == 2


async def test_a_filtered_listing(client: Client) -> None:
    before = datetime.now(UTC) - timedelta(minutes=1)
    running = await client.submit("forever")
    await (await client.submit("versioned")).result()
    assert [j.job_id for j in await all_of(client.jobs(status=["running"]))] == [running.id]
    assert len(await all_of(client.jobs(agent="versioned@1.0.0"))) == 1
    assert len(await all_of(client.jobs(created_after=before))) == 2
    assert await all_of(client.jobs(created_after=datetime.now(UTC))) == []
    await running.cancel()


# ------------------------------------------------------------------ watching


@rule("accept-10", "accept-18")
async def test_a_second_session_watches_with_history(
    client: Client, reference: ReferenceRuntime
) -> None:
    puppet = reference.puppet()
    job = await client.submit("puppet", "p")
    await puppet.progress(1, 2, 3)
    async with another(reference) as observer:
        # Events of its own first, whose numbers the watched job's will collide with.
        own = await observer.submit("echo")
        await own.result()
        view = await observer.watch(job.id, history=True)
        assert view.status == "running"
        await puppet.progress(4, 5)
        puppet.finish("done")
        seen = await all_of(view)
        assert numbers(seen) == [1, 2, 3, 4, 5]
        assert kinds(seen)[-1] == "result"
        assert (await view.result()).value == "done"
        # The numbers of the session's own events go on undisturbed.
        more = await observer.submit("echo")
        assert [event.seq for event in await all_of(more)] == list(range(9, 17))
        assert observer.stats().gaps == 0
    assert numbers(await all_of(job)) == [1, 2, 3, 4, 5]


async def test_watching_from_a_number_on(client: Client, reference: ReferenceRuntime) -> None:
    puppet = reference.puppet()
    job = await client.submit("puppet", "p")
    await puppet.progress(1, 2, 3)
    async with another(reference) as observer:
        view = await observer.watch(job.id, history=True, from_seq=2)
        puppet.finish()
        assert numbers(await all_of(view)) == [3]


async def test_an_ended_job_is_watched_to_its_end(
    client: Client, reference: ReferenceRuntime
) -> None:
    job = await client.submit("chunks", ["a", "b"])
    await job.result()
    async with another(reference) as observer:
        view = await observer.watch(job.id, history=True)
        assert (await view.result()).value == "ab"
        assert view.status == "success"
        assert kinds(await all_of(view))[-1] == "result"


@rule("accept-19")
async def test_an_ended_job_watched_without_history_still_has_its_result(
    client: Client, reference: ReferenceRuntime
) -> None:
    job = await client.submit("echo", 7)
    await job.result()
    async with another(reference) as observer:
        view = await observer.watch(job.id)
        assert (await view.result()).value == {"echoed": 7}


async def test_nothing_comes_after_unsubscribing(
    client: Client, reference: ReferenceRuntime
) -> None:
    puppet = reference.puppet()
    job = await client.submit("puppet", "p")
    async with another(reference) as observer:
        view = await observer.watch(job.id)
        await puppet.progress(1)
        assert (await anext(view.events(events.Progress))).current == 1
        await view.unsubscribe()
        await observer.ping()  # answered after what was sent before it
        await puppet.progress(2)
        await observer.ping()
        assert observer.stats().received == 1
    puppet.finish()
    await job.result()


# ------------------------------------------------------------------ idempotency


async def test_the_same_key_gives_the_same_job(client: Client) -> None:
    first = await client.submit("echo", 1, idempotency_key="k")
    await first.result()
    again = await client.submit("echo", 1, idempotency_key="k")
    assert again.id == first.id
    assert (await again.result()).value == {"echoed": 1}
    with pytest.raises(DuplicateKey):
        await client.submit("echo", 2, idempotency_key="k")


async def test_the_same_key_in_a_later_session_brings_everything_back(
    reference: ReferenceRuntime,
) -> None:
    async with another(reference) as first:
        job = await first.submit("chunks", ["a", "b", "c"], idempotency_key="k")
        await job.result()
    async with another(reference) as second:
        again = await second.submit("chunks", ["a", "b", "c"], idempotency_key="k")
        assert again.id == job.id
        assert (await again.result()).value == "abc"
        assert second.stats().gaps == 0
        more = await second.submit("echo")
        await more.result()
        assert second.stats().gaps == 0


@rule("python: histories")
@rule("note-6")
async def test_a_watcher_gets_all_of_what_the_submitter_has_processed(
    reference: ReferenceRuntime,
) -> None:
    # This runtime makes histories of the log that acknowledgements free.
    puppet = reference.puppet()
    async with another(reference) as submitter, another(reference) as observer:
        job = await submitter.submit("puppet", "p")
        await puppet.progress(*range(25))
        await submitter.drain()
        view = await observer.watch(job.id, history=True)
        await puppet.progress(*range(25, 40))
        puppet.finish()
        assert numbers(await all_of(view)) == list(range(40))
        streamed = await submitter.submit("chunks", ["a", "b", "c"])
        assert (await streamed.result()).value == "abc"
        await submitter.drain()
        again = await observer.watch(streamed.id, history=True)
        assert (await again.result()).value == "abc"
        assert (submitter.stats().gaps, observer.stats().gaps) == (0, 0)
    assert all(connection.of("session.ack") == [] for connection in reference.connections)


async def test_the_same_key_while_the_job_of_an_earlier_session_runs(
    reference: ReferenceRuntime,
) -> None:
    puppet = reference.puppet()
    async with another(reference) as first:
        job = await first.submit("puppet", "p", idempotency_key="k")
        await puppet.progress(1, 2)
        await first.drain()
    await reference.until_ended(1)
    await puppet.progress(3)  # nobody is told of it: this runtime forgets it
    async with another(reference) as second:
        again = await second.submit("puppet", "p", idempotency_key="k")
        assert again.id == job.id
        assert (await all_of(second.jobs()))[0].status == "running"  # answered after the attach
        await puppet.progress(4)
        puppet.finish("done")
        seen = await all_of(again)
        assert numbers(seen) == [1, 2, 4]
        assert [type(e) for e in seen].count(events.Gap) == 1
        assert (await again.result()).value == "done"
