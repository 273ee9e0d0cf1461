"""Frames that are not what they should be: one answer each, and the session lives."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arcp_client._wire.messages import REQUESTS
from arcp_client._wire.names import FEATURES
from arcp_client.runtime import JobContext, Runtime
from tests.unit.runtime.peer import Peer

BAD = [
    b"not json",
    b"[]",
    b"null",
    b'"x"',
    b"{}",
    b'{"type":7}',
    b'{"type":"job.submit","payload":[]}',
    b"[" * 100_000,
    b'{"type":"session.ping","id":"x","payload":' + b"[" * 100_000,
    b'{"type":"session.ack","id":"x","payload":{"last_processed_seq":' + b"9" * 5000 + b"}}",
    b'{"type":"session.ack","id":"x","payload":{"last_processed_seq":NaN}}',
    b'{"type":"session.ack","id":"x","payload":{"last_processed_seq":1e400}}',
    b'{"type":"session.ack","id":"x","payload":{"last_processed_seq":true}}',
    b'{"type":"session.ack","id":"x","payload":{"last_processed_seq":"3"}}',
    b'{"type":"session.ack","id":"x","payload":{"last_processed_seq":-1}}',
    b'{"type":"session.ack","id":"x","payload":{"last_processed_seq":1.5}}',
    b'{"type":"session.ack","id":"x","event_seq":true,"payload":{"last_processed_seq":0}}',
    b'{"type":"job.event","id":"x","event_seq":1,"payload":{"kind":"log","body":{}}}',
    b'{"type":"job.event","id":"x","payload":{}}',
    b'{"type":"job.result","id":"x","payload":{}}',
    b'{"type":"session.welcome","id":"x","payload":{}}',
    b'{"type":"no.such.type","id":"x"}',
    b'{"type":"job.submit","id":"x","payload":{"agent":{"a":1}}}',
    b'{"type":"job.cancel","id":"x","payload":{}}',
    b'{"type":"job.cancel","id":"x","payload":{"job_id":""}}',
    b'{"type":"job.subscribe","id":"x","payload":{"job_id":7}}',
    b'{"type":"job.subscribe","id":"x","payload":{"job_id":"j","history":"maybe"}}',
    b'{"type":"session.resume","id":"x","payload":{}}',
    b'{"type":"session.hello","id":"x","payload":{}}',
    b"\xff\xfe\x00",
]


@pytest.mark.parametrize("frame", BAD, ids=lambda frame: repr(frame[:60]))
async def test_a_bad_frame_is_answered_and_the_session_lives(
    runtime: Runtime, open_peer: Any, frame: bytes
) -> None:
    peer = await open_peer(runtime)
    await peer.raw(frame)
    reply = await peer.read()
    assert reply["type"] == "session.error"
    assert reply["session_id"] == peer.session_id
    assert reply["payload"]["code"] == "INVALID_REQUEST"
    assert reply["payload"]["retryable"] is False
    if b'"id":"x"' in frame and frame.count(b"[") < 1000:
        assert reply["payload"]["request_id"] == "x"
    assert len(json.dumps(reply)) < 2000
    assert (await peer.ask("session.list_jobs"))["type"] == "session.jobs"


@pytest.mark.parametrize(
    ("type", "payload", "feature"),
    [
        ("session.ack", {"last_processed_seq": 0}, "ack"),
        ("session.list_jobs", {}, "list_jobs"),
        ("job.subscribe", {"job_id": "x"}, "subscribe"),
        ("job.unsubscribe", {"job_id": "x"}, "subscribe"),
        ("job.submit", {"agent": "a@1"}, "agent_versions"),
        (
            "job.submit",
            {"agent": "a", "lease_request": {"cost.budget": ["USD:1"]}},
            "cost.budget",
        ),
        ("job.submit", {"agent": "a", "lease_request": {"model.use": ["m"]}}, "model.use"),
        (
            "job.submit",
            {"agent": "a", "lease_constraints": {"expires_at": "2999-01-01T00:00:00Z"}},
            "lease_expires_at",
        ),
    ],
)
async def test_a_feature_that_was_not_negotiated_is_refused(
    runtime: Runtime, open_peer: Any, type: str, payload: Any, feature: str
) -> None:
    @runtime.agent("a", "1")
    async def a(input: Any, job: JobContext) -> None: ...

    peer = await open_peer(runtime, features=tuple(f for f in FEATURES if f != feature))
    answer = await peer.ask(type, payload)
    assert answer["payload"]["code"] == "INVALID_REQUEST"
    assert feature in answer["payload"]["message"]


async def test_unknown_envelope_fields_are_ignored(runtime: Runtime, open_peer: Any) -> None:
    peer = await open_peer(runtime)
    await peer.send("session.ping", {"nonce": "n", "extra": {}}, timestamp="now", extensions=[1])
    assert (await peer.read())["payload"]["ping_nonce"] == "n"


async def test_what_a_handler_trips_over_is_an_internal_error(
    runtime: Runtime, open_peer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("canary")

    monkeypatch.setattr(runtime._core.admission, "submit", broken)
    peer = await open_peer(runtime)
    answer = await peer.ask("job.submit", {"agent": "a"})
    assert answer["payload"]["code"] == "INTERNAL_ERROR"
    assert answer["payload"]["retryable"] is True
    assert "canary" not in json.dumps(answer)


async def test_a_flood_of_bad_frames_holds_back_the_reader_not_the_memory(
    runtime: Runtime, open_peer: Any
) -> None:
    import asyncio

    peer = await open_peer(runtime)

    async def flood() -> None:
        for _ in range(20_000):
            await peer.raw(b"x")

    flooding = asyncio.create_task(flood())
    (connection,) = runtime._core.links.connections
    for _ in range(20_000):
        frame = await peer.read()
        assert frame["payload"]["code"] == "INVALID_REQUEST"
        assert len(connection._control) < 300
    await flooding


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
fields = st.sampled_from(
    [
        "agent",
        "input",
        "job_id",
        "history",
        "from_event_seq",
        "lease_request",
        "lease_constraints",
        "limit",
        "cursor",
        "filter",
        "reason",
        "nonce",
        "last_processed_seq",
        "idempotency_key",
        "max_runtime_sec",
        "parent_job_id",
        "resume_token",
        "session_id",
        "auth",
        "capabilities",
        "client",
        "resume",
    ]
)
payloads = st.dictionaries(fields, json_values, max_size=5) | json_values


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    frames=st.lists(
        st.tuples(st.sampled_from(sorted(REQUESTS)), payloads) | st.binary(max_size=80),
        max_size=8,
    )
)
async def test_whatever_comes_there_is_an_answer_and_an_undisturbed_neighbour(
    frames: list[Any],
) -> None:
    async with Runtime() as runtime:

        @runtime.agent("a")
        async def a(input: Any, job: JobContext) -> None: ...

        neighbour, peer = await Peer.to(runtime), await Peer.to(runtime)
        await neighbour.hello()
        await peer.hello()
        for frame in frames:
            if isinstance(frame, bytes):
                await peer.raw(frame)
                continue
            type, payload = frame
            if type in ("session.close", "session.bye"):
                continue
            data = json.dumps({"type": type, "id": "r", "payload": payload}).encode()
            await peer.raw(data)
        assert (await peer.ask("session.list_jobs"))["type"] == "session.jobs"
        _, answered = await neighbour.run("a")
        assert answered[-1]["type"] == "job.result"
        await peer.close()
        await neighbour.close()
