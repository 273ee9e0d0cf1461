"""§11, §12, §14: traces, errors, caps."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from arcp_client._wire.ids import new_id
from arcp_client.runtime import Limits
from tests.contract.conftest import Worlds
from tests.contract.requirements import requirement
from tests.contract.world import World, raw

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@requirement("R-11-1", "R-11-2")
@pytest.mark.parametrize("given", [TRACE, f"00-{TRACE}-00f067aa0ba902b7-01"])
async def test_a_trace_is_on_every_frame_of_its_job(world: World, given: str) -> None:
    peer = await world.peer()
    accepted = await peer.submit("agent", trace_id=given)
    run = await world.run()
    assert run.job.trace_id == TRACE  # what an agent hands on to its tools
    await run.emit()
    run.finish()
    frames = [accepted, *await peer.follow(run.id)]
    assert {f["trace_id"] for f in frames} == {TRACE}
    assert accepted["payload"]["trace_id"] == TRACE


@requirement("R-12-1")
@pytest.mark.parametrize(
    ("type", "payload"),
    [
        ("job.submit", {"agent": "nobody"}),
        ("job.submit", {}),
        ("job.cancel", {"job_id": "job_x"}),
        ("job.subscribe", {"job_id": "job_x"}),
        ("session.list_jobs", {"limit": -1}),
        ("session.ack", {"last_processed_seq": "x"}),
        ("session.hello", {}),
        ("no.such.type", {}),
    ],
)
async def test_errors_say_what_they_answer(world: World, type: str, payload: Any) -> None:
    peer = await world.peer()
    error = await peer.ask(type, payload)
    assert error["type"] == "session.error"
    assert isinstance(error["payload"]["code"], str)
    assert error["payload"]["message"]
    assert isinstance(error["payload"]["retryable"], bool)


@requirement("R-12-2")
@pytest.mark.parametrize(
    "frame",
    [
        b"not json", b"[]", b"7", b'"x"', b"{}", b'{"type":7}', b'{"type":"x"', b"\xff\xfe",
        b'{"type":"session.ping","payload":[]}', b'{"type":"job.event","payload":{}}',
    ],
)  # fmt: skip
async def test_a_malformed_frame_is_refused_and_the_session_lives(
    world: World, frame: bytes
) -> None:
    peer = await world.peer()
    if frame == b"\xff\xfe" and world.kind == "websocket":
        frame = b"\x00"  # a text message that is no UTF-8 may end a WebSocket (RFC 6455 §8.1)
    await peer.raw(frame)
    error = await peer.until("session.error")
    assert error["payload"]["code"] == "INVALID_REQUEST"
    id = new_id()
    await peer.raw(raw({"id": id, "type": "session.list_jobs", "payload": "no object"}))
    error = await peer.until("session.error")
    assert error["payload"]["request_id"] == id
    assert (await peer.ask("session.list_jobs"))["type"] == "session.jobs"


@requirement("R-12-3")
async def test_what_is_not_there(world: World) -> None:
    peer = await world.peer()
    for type, payload, code in (
        ("job.submit", {"agent": "nobody"}, "AGENT_NOT_AVAILABLE"),
        ("job.cancel", {"job_id": "job_none"}, "JOB_NOT_FOUND"),
        ("job.subscribe", {"job_id": "job_none"}, "JOB_NOT_FOUND"),
    ):
        answer = await peer.ask(type, payload)
        assert answer["payload"]["code"] == code


@requirement("R-12-5")
async def test_a_crash_tells_nothing_of_its_cause(world: World) -> None:
    peer = await world.peer()
    run = await world.job(peer)
    run.fail(ValueError("secret path"))
    (error,) = await peer.follow(run.id)
    assert error["payload"]["code"] == "INTERNAL_ERROR"
    assert error["payload"]["retryable"] is True
    assert "secret" not in str(error)


@requirement("R-14-6", "R-14-7")
async def test_sessions_of_a_principal_are_capped(worlds: Worlds) -> None:
    world = await worlds(limits=Limits(sessions_per_principal=2))
    first, second = await world.peer(), await world.peer()
    third = await world.stranger()
    reply = await third.hello()
    assert (reply["payload"]["code"], reply["payload"]["retryable"]) == ("INTERNAL_ERROR", True)
    await first.ask("session.list_jobs")
    await second.send("session.close")
    await second.ended()
    await world.peer()  # the one without a connection made room
    gone = await world.stranger()
    reply = await gone.hello(resume=second.block())
    assert reply["payload"]["code"] == "RESUME_WINDOW_EXPIRED"


@requirement("R-14-8")
async def test_subscriptions_are_logged(worlds: Worlds, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "arcp_client.runtime")
    world = await worlds(auth={"t-alice": "alice", "t-bob": "bob"})
    alice, bob = await world.peer(token="t-alice"), await world.peer(token="t-bob")
    run = await world.job(alice)
    await bob.ask("job.subscribe", {"job_id": run.id})
    assert f"bob asks to observe job {run.id} of alice: denied" in caplog.text
    assert "t-bob" not in caplog.text
