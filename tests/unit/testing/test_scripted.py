"""`ScriptedRuntime` does what its script says, in the words of its dialect."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from arcp_client import Client, Gap, Timeouts, events
from arcp_client.errors import (
    AgentNotFound,
    ConnectFailed,
    LinkLost,
    RequestTimeout,
    ResultIncomplete,
)
from arcp_client.testing import ScriptedRuntime
from arcp_client.testing.scripted import (
    Accept,
    Chunk,
    Drop,
    Emit,
    Finish,
    Later,
    Raw,
    Refuse,
    Spawn,
    Wait,
    Withhold,
)
from arcp_client.transports import Connector
from tests.dialects import PLAYED

AGENTS = {
    "count": [Emit("progress", {"current": n}) for n in range(1, 4)],
    "gated": [Emit("progress", {"current": 1}), Wait("go"), Finish("done")],
    "early": [Emit("progress", {"current": 1}), Accept(), Finish("done")],
    "parent": [Spawn("count"), Finish("done")],
    "swapped": [
        Later(Emit("progress", {"current": 1})),
        Emit("progress", {"current": 2}),
        Finish("done"),
    ],
    "cut": [Emit("progress", {"current": 1}), Drop(), Wait("go"), Finish("done")],
    "raw": [
        Raw({"type": "job.event", "payload": {"kind": "x-vendor.a.b", "body": [1]}}),
        Raw(b"not json"),
        Finish("done"),
    ],
    "streams": [Chunk("a"), Chunk("b")],
}


def made(dialect: str = "spec", **options: object) -> ScriptedRuntime:
    return ScriptedRuntime(dialect, agents=AGENTS, **options)  # type: ignore[arg-type]


def quick(runtime: ScriptedRuntime) -> Client:
    return Client(runtime, token="t", timeouts=Timeouts(request=5, close=1))


def test_an_unknown_dialect_is_refused() -> None:
    with pytest.raises(ValueError, match="python, typescript"):
        ScriptedRuntime("cobol")


def test_it_is_a_connector() -> None:
    runtime = made("go")
    assert isinstance(runtime, Connector)
    assert runtime.target == "scripted:go"


@pytest.mark.parametrize("dialect", PLAYED)
async def test_it_speaks_the_dialect_that_clients_recognise(dialect: str) -> None:
    async with made(dialect) as runtime, quick(runtime) as client:
        assert client.session.dialect == {"spec": "unknown"}.get(dialect, dialect)
        assert [agent.name for agent in client.session.agents] == list(AGENTS)
        assert runtime.said[0]["type"] == "session.welcome"  # type: ignore[index]
        assert [frame["type"] for frame in runtime.heard] == ["session.hello"]


@pytest.mark.parametrize("dialect", PLAYED)
async def test_over_a_websocket_it_does_the_same(dialect: str) -> None:
    async with (
        made(dialect) as runtime,
        runtime.serve() as server,
        Client(server.url, token="t") as client,
    ):
        job = await client.submit("count")
        assert [event.current async for event in job.events(events.Progress)] == [1, 2, 3]
        assert (await job.result()).value is None
        assert runtime.objections == []


async def test_a_job_waits_until_its_gate_is_opened() -> None:
    async with made() as runtime, quick(runtime) as client:
        job = await client.submit("gated")
        await anext(aiter(job))
        assert job.status == "running"
        runtime.open("go")
        assert (await job.result()).value == "done"
        assert list(runtime.jobs) == [job.id]


async def test_answers_are_for_the_first_requests_only() -> None:
    answers = {"job.submit": [None, Refuse("AGENT_NOT_AVAILABLE", "busy")]}
    async with made(answers=answers) as runtime, quick(runtime) as client:
        await client.submit("count")
        with pytest.raises(AgentNotFound, match="busy"):
            await client.submit("count")
        await client.submit("count")
        runtime.next("job.submit", Refuse("AGENT_NOT_AVAILABLE"))
        with pytest.raises(AgentNotFound):
            await client.submit("count")


async def test_a_request_may_be_passed_over() -> None:
    async with made() as runtime, quick(runtime) as client:
        runtime.next("session.list_jobs", Withhold())
        with pytest.raises(RequestTimeout):
            _ = [job async for job in client.jobs(timeout=0.05)]
        assert len(await runtime.until("session.list_jobs")) == 1


async def test_frames_may_overtake_one_another() -> None:
    async with made("python") as runtime, quick(runtime) as client:
        job = await client.submit("swapped")
        await job.result()
        said = [frame for frame in runtime.said if isinstance(frame, dict)]
        sent = [f["payload"]["body"]["current"] for f in said if f["type"] == "job.event"]
        assert sent == [2, 1]


async def test_an_answer_may_be_replaced_by_any_frame() -> None:
    async with made() as runtime, quick(runtime) as client:
        runtime.next("session.list_jobs", Raw({"type": "session.jobs", "payload": {"jobs": None}}))
        assert [job async for job in client.jobs()] == []


async def test_a_script_may_send_any_frame(caplog: pytest.LogCaptureFixture) -> None:
    async with made() as runtime, quick(runtime) as client:
        job = await client.submit("raw")
        kinds = [event.kind async for event in job]
        assert kinds == ["x-vendor.a.b", "result"]
    assert "unreadable frame" in caplog.text


async def test_a_link_may_be_dropped_by_a_script_and_by_a_test() -> None:
    async with made() as runtime, quick(runtime) as client:
        job = await client.submit("cut")
        await runtime.until_linked(2)
        runtime.drop()
        await runtime.until_linked(3)
        runtime.open("go")
        assert [event.kind async for event in job] == ["progress", "result"]
        assert client.stats().gaps == 0


async def test_a_dropped_answer_took_effect() -> None:
    async with made() as runtime, quick(runtime) as client:
        runtime.next("job.submit", Drop())
        job = await client.submit("count")
        assert (await job.result()).value is None
        assert list(runtime.jobs) == [job.id]
        assert len(runtime.of("job.submit")) in (1, 2)


async def test_events_may_come_before_the_acceptance() -> None:
    async with made("ruby") as runtime, quick(runtime) as client:
        job = await client.submit("early")
        assert [event.kind async for event in job] == ["progress", "result"]
        said = [frame["type"] for frame in runtime.said if isinstance(frame, dict)]
        assert said.index("job.event") < said.index("job.accepted")


async def test_a_job_may_start_another_one() -> None:
    async with made("typescript") as runtime, quick(runtime) as client:
        job = await client.submit("parent")
        await job.result()
        parent, child = runtime.jobs.values()
        assert child.parent == parent.id == job.id


async def test_frames_may_be_sent_unasked() -> None:
    async with made() as runtime, quick(runtime) as client:
        runtime.send({"type": "session.ping", "payload": {"nonce": "n"}})
        (pong,) = await runtime.until("session.pong")
        assert pong["payload"]["ping_nonce"] == "n"
        runtime.send(json.dumps({"type": "session.ping", "payload": {"nonce": "m"}}).encode())
        assert len(await runtime.until("session.pong", 2)) == 2
        assert client.stats().reconnects == 0


async def test_tokens_are_checked_if_there_are_any() -> None:
    async with made(tokens=["good"]) as runtime, Client(runtime, token="good"):
        pass


async def test_what_the_dialect_would_not_take_is_kept() -> None:
    async with made("python") as runtime:
        link = await runtime.connect()
        await link.send(b'{"arcp":"1.1","type":"session.hello","id":"1","payload":{"client":{}}}')
        await link.receive()
        assert [why for why, _ in runtime.objections] == ["the id is not a ULID"]
        await link.close()


async def test_a_first_frame_that_is_no_hello_ends_the_link() -> None:
    async with made() as runtime:
        link = await runtime.connect()
        await link.send(b'{"arcp":"1.1","type":"job.submit","id":"1","payload":{}}')
        with pytest.raises(LinkLost):
            await link.receive()
        await link.close()


async def test_the_older_family_takes_no_session() -> None:
    async with made("legacy") as runtime:
        client = Client(runtime, token="t", timeouts=Timeouts(open=5))
        with pytest.raises(ConnectFailed, match="another protocol"):
            await client.connect()
        assert runtime.links == 1
        await client.close()


@pytest.mark.parametrize("stated", [2, 3])
async def test_a_stream_that_is_cut_short_is_known_by_its_size_only(stated: int) -> None:
    end = {"final_status": "success", "result_id": "r", "result_size": stated}
    body = {"result_id": "r", "chunk_seq": 0, "data": "ab", "encoding": "utf8", "more": True}
    script = [
        Emit("result_chunk", body),  # this runtime marks no chunk as the last one
        Raw({"type": "job.result", "id": "e", "payload": end}),
    ]
    async with ScriptedRuntime("ruby", agents={"cut": script}) as runtime, quick(runtime) as client:
        job = await client.submit("cut")
        if stated == 2:
            assert (await job.result()).value == "ab"
        else:
            with pytest.raises(ResultIncomplete) as caught:
                await job.result()
            assert (caught.value.partial, caught.value.missing) == ("ab", (1,))
        assert Gap not in [type(event) async for event in job]


async def test_acknowledgements_free_what_histories_are_made_of_where_they_do() -> None:
    for dialect, left in (("go", [3]), ("python", [3]), ("java", [1, 2, 3])):
        script = [*(Emit("progress", {"current": n}) for n in (1, 2, 3)), Wait("go")]
        async with (
            ScriptedRuntime(dialect, agents={"a": script}) as runtime,
            quick(runtime) as one,
            quick(runtime) as other,
        ):
            job = await one.submit("a")
            async for event in job.events(events.Progress):
                if event.current == 3:
                    break
            runtime.jobs[job.id].acknowledged(runtime.sessions[one.session.id], 2)
            view = await other.watch(job.id, history=True)
            runtime.open("go")
            assert [event.current async for event in view.events(events.Progress)] == left


def said(runtime: ScriptedRuntime, kind: str) -> list[dict[str, Any]]:
    """The payloads of the frames of one type that the runtime has sent."""
    frames = [frame for frame in runtime.said if isinstance(frame, dict)]
    return [frame["payload"] for frame in frames if frame["type"] == kind]


@pytest.mark.parametrize(("dialect", "jobs"), [("go", None), ("spec", [])])
async def test_an_empty_listing_is_null_where_it_is(dialect: str, jobs: object) -> None:
    async with made(dialect) as runtime, quick(runtime) as client:
        assert [job async for job in client.jobs()] == []
        assert [payload["jobs"] for payload in said(runtime, "session.jobs")] == [jobs]


@pytest.mark.parametrize(("dialect", "told"), [("go", False), ("spec", True)])
async def test_an_empty_lease_is_left_out_where_it_is(dialect: str, told: bool) -> None:
    async with made(dialect) as runtime, quick(runtime) as client:
        await (await client.submit("count")).result()
        assert ["lease" in payload for payload in said(runtime, "job.accepted")] == [told]


@pytest.mark.parametrize(("dialect", "copies"), [("csharp", 0), ("ruby", 1)])
async def test_the_submitter_subscribes_where_it_may(dialect: str, copies: int) -> None:
    async with made(dialect) as runtime, quick(runtime) as client:
        job = await client.submit("gated")
        played, session = runtime.jobs[job.id], runtime.sessions[client.session.id]
        played.watch(session, history=False, after=0)
        assert len(played.watchers) == copies
        runtime.open("go")
        await job.result()


@pytest.mark.parametrize(
    ("dialect", "followed"), [("csharp", False), ("python", False), ("spec", True)]
)
async def test_events_follow_a_resumed_session_where_they_do(dialect: str, followed: bool) -> None:
    async with made(dialect) as runtime, quick(runtime) as client:
        job = await client.submit("gated")
        links = runtime.links
        runtime.drop()
        while runtime.links == links or runtime.sessions[client.session.id].link is None:
            await asyncio.sleep(0)
        played = runtime.jobs[job.id]
        before = len(said(runtime, "job.event"))
        played.tell("job.event", {"kind": "progress", "body": {"current": 9}})
        await asyncio.sleep(0)
        assert (len(said(runtime, "job.event")) > before) is followed
