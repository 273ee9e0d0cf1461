"""The reference SDK's own client drives our runtime over a real WebSocket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import arcp
import pytest
from arcp.client import ARCPClient

from arcp_client.runtime import JobContext, Runtime

Connect = Callable[..., Awaitable[ARCPClient]]

TOKENS = {"t-alice": "alice", "t-bob": "bob"}

# It always asks for a lease, and gets what it asks for.
LEASE = {"tool.call": ["double"]}


@pytest.fixture
async def runtime() -> AsyncIterator[Runtime]:
    runtime = Runtime(auth=TOKENS)

    @runtime.agent("worker", "1.0.0")
    @runtime.agent("worker", "2.0.0", default=True)
    async def worker(input: Any, job: JobContext) -> dict[str, Any]:
        await job.log("started")
        for n in range(3):
            await job.progress(n + 1, total=3, units="steps")
        async with job.tool("double", {"n": input["n"]}) as call:
            call.result = input["n"] * 2
        return {"doubled": input["n"] * 2, "agent": job.agent}

    @runtime.agent("report")
    async def report(input: Any, job: JobContext) -> AsyncIterator[str | bytes]:
        for part in ("первая ", "second ", b"\x00\xff"):
            yield part

    @runtime.agent("forever")
    async def forever(input: Any, job: JobContext) -> None:
        await job.status("waiting")
        await asyncio.Event().wait()

    @runtime.agent("declared", "1.0", input_schema=dict[str, int], description="Adds.")
    async def declared(input: dict[str, int], job: JobContext) -> int:
        return sum(input.values())

    @runtime.agent("broken")
    async def broken(input: Any, job: JobContext) -> None:
        raise ValueError("internal detail")

    async with runtime:
        yield runtime


@pytest.fixture
async def connect(runtime: Runtime) -> AsyncIterator[Connect]:
    clients: list[ARCPClient] = []

    async with runtime.serve() as server:

        async def open_(token: str = "t-alice", **options: Any) -> ARCPClient:
            resume = options.pop("resume", None)
            client = ARCPClient(
                client=arcp.ClientInfo(name="reference", version="1.1.3"), token=token, **options
            )
            transport = await arcp.WebSocketTransport.connect(server.url)
            if resume is None:
                await client.connect(transport)
            else:
                await client.resume(transport, resume=resume)
            clients.append(client)
            return client

        yield open_
        for client in clients:
            handles = list(client._handles.values())
            await client.close()
            for handle in handles:  # closing failed them; nobody else looks
                handle._terminal.exception()


async def collected(handle: Any) -> list[dict[str, Any]]:
    return [event async for event in handle.events()]


async def test_it_reads_the_welcome(connect: Connect) -> None:
    client = await connect()
    welcome = client.welcome
    assert welcome is not None
    assert welcome.session_id.startswith("sess_")
    assert welcome.resume_window_sec == 600
    assert {agent.name for agent in welcome.capabilities.agents} >= {"worker", "report"}
    assert client.has_feature("subscribe")


async def test_it_submits_follows_and_gets_the_result(connect: Connect) -> None:
    client = await connect()
    handle = await client.submit(
        agent="worker", input={"n": 21}, lease_request=LEASE, trace_id="a" * 32
    )
    assert handle.agent_ref == "worker@2.0.0"
    assert handle.trace_id == "a" * 32
    events = await collected(handle)
    assert [event["kind"] for event in events] == [
        "log",
        "progress",
        "progress",
        "progress",
        "tool_call",
        "tool_result",
    ]
    assert events[1]["body"] == {"current": 1, "total": 3, "units": "steps"}
    result = await handle.done
    assert result.final_status == "success"
    assert result.result == {"doubled": 42, "agent": "worker@2.0.0"}


async def test_it_submits_many_jobs_at_once(connect: Connect) -> None:
    client = await connect()
    handles = await asyncio.gather(
        *(client.submit(agent="worker", input={"n": n}, lease_request=LEASE) for n in range(20))
    )
    results = await asyncio.gather(*(asyncio.wait_for(h.done, 10) for h in handles))
    assert [r.result["doubled"] for r in results] == [2 * n for n in range(20)]
    assert client.latest_event_seq == 20 * 7


async def test_it_assembles_a_chunked_result(connect: Connect) -> None:
    client = await connect()
    handle = await client.submit(agent="report")
    assert await handle.collect_chunks() == "первая second ".encode() + b"\x00\xff"
    result = await handle.done
    assert result.result_id is not None
    assert result.result_size == len("первая second ".encode()) + 2


@pytest.mark.parametrize(
    ("agent", "error"),
    [
        ("nobody", arcp.AgentNotAvailableError),
        ("worker@9.9.9", arcp.AgentVersionNotAvailableError),
    ],
)
async def test_it_learns_why_a_submit_was_refused(
    connect: Connect, agent: str, error: type[Exception]
) -> None:
    client = await connect()
    with pytest.raises(error):
        await client.submit(agent=agent)


async def test_it_learns_that_a_job_failed(connect: Connect) -> None:
    client = await connect()
    handle = await client.submit(agent="broken")
    with pytest.raises(arcp.ARCPError) as failed:
        await handle.done
    assert failed.value.code == "INTERNAL_ERROR"
    assert "detail" not in str(failed.value)


async def test_its_cancel_ends_the_job(connect: Connect) -> None:
    """It cannot read it: to it, ``job.error`` has no ``final_status`` but ``error`` (§7.4).

    Its reader stops there, so a second client looks up how the job ended.
    """
    client = await connect()
    handle = await client.submit(agent="forever")
    event = await anext(handle.events())
    assert event["body"]["phase"] == "waiting"
    await client.cancel_job(handle.job_id)
    other = await connect()
    async with asyncio.timeout(10):
        while True:
            (job,) = (await other.list_jobs()).jobs
            if job.status != "running":
                break
    assert (job.job_id, job.status) == (handle.job_id, "cancelled")


async def test_it_lists_with_filters_and_pages(connect: Connect) -> None:
    client = await connect()
    handles = [
        await client.submit(agent="worker", input={"n": n}, lease_request=LEASE) for n in range(5)
    ]
    for handle in handles:
        await handle.done
    waiting = await client.submit(agent="forever")
    wanted = arcp.ListJobsFilter(agent="worker@2.0.0", status=("success",))
    seen, cursor = [], None
    while True:
        page = await client.list_jobs(filter=wanted, limit=2, cursor=cursor)
        seen += [job.job_id for job in page.jobs]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == [handle.job_id for handle in handles]
    running = await client.list_jobs(filter=arcp.ListJobsFilter(status=("running",)))
    assert [job.job_id for job in running.jobs] == [waiting.job_id]


async def test_it_observes_a_job_of_another_session(connect: Connect) -> None:
    owner, observer = await connect(), await connect()
    handle = await owner.submit(agent="worker", input={"n": 1}, lease_request=LEASE)
    await handle.done
    watched = await observer.subscribe(handle.job_id, history=True)
    assert watched.replayed == 1
    async with asyncio.timeout(10):
        # It drops what comes before its caller was told of the subscription: no events to compare.
        while observer.latest_event_seq < 7:
            await asyncio.sleep(0)


async def test_another_principal_observes_nothing(connect: Connect) -> None:
    alice, bob = await connect(), await connect("t-bob")
    await alice.submit(agent="forever")
    assert (await bob.list_jobs()).jobs == ()


async def test_it_resumes_after_a_cut(connect: Connect) -> None:
    client = await connect()
    handle = await client.submit(agent="forever")
    await anext(handle.events())
    welcome = client.welcome
    assert welcome is not None
    assert client._transport is not None
    await client._transport.close()
    with pytest.raises(arcp.TransportClosed):
        await handle.done
    again = await connect(
        resume=arcp.SessionResume(
            session_id=welcome.session_id,
            resume_token=welcome.resume_token,
            last_event_seq=0,
        )
    )
    assert again.session_id == welcome.session_id
    async with asyncio.timeout(10):
        while again.latest_event_seq < 1:
            await asyncio.sleep(0)


async def test_a_wrong_token_is_unauthenticated(connect: Connect) -> None:
    with pytest.raises(arcp.UnauthenticatedError):
        await connect("t-mallory")


async def test_it_acknowledges_and_answers_pings(runtime: Runtime, connect: Connect) -> None:
    client = await connect(auto_ack=False)
    handle = await client.submit(agent="worker", input={"n": 1}, lease_request=LEASE)
    await handle.done
    await client.ack(client.latest_event_seq)
    (page,) = (await client.list_jobs()).jobs
    assert page.status == "success"


async def test_a_client_that_does_not_know_declarations_uses_an_agent_that_has_them(
    connect: Connect,
) -> None:
    client = await connect()
    handle = await client.submit(agent="declared", input={"a": 1, "b": 2})
    assert (await handle.done).result == 3
    with pytest.raises(arcp.ARCPError) as caught:
        await client.submit(agent="declared", input={"a": "x"})
    assert "input.a: Input should be a valid integer" in str(caught.value)
