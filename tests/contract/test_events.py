"""§8: envelopes and kinds of events, streamed results."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from arcp_client.runtime import Limits
from tests.contract.conftest import Worlds
from tests.contract.requirements import requirement
from tests.contract.world import World
from tests.unit.runtime.peer import bodies


@requirement("R-8.1-1", "R-8.2-1")
async def test_the_kinds(world: World) -> None:
    peer = await world.peer()
    run = await world.job(peer, trace_id="b" * 32)
    job = run.job
    await job.log("hello", "warn")
    await job.thought("hm")
    await job.tool_call("search", {"q": 1}, "c1")
    await job.tool_result("c1", {"hits": 2})
    await job.tool_result("c2", error={"code": "X", "message": "no", "retryable": False})
    await job.status("phase", "so far")
    await job.metric("latency", 1.5, "ms", {"a": "b"})
    await job.artifact("file:///x", "text/plain", 3, "00")
    await job.progress(47, 120, "files", "x.ts")
    await job.emit("x-vendor.mine", {"any": ["thing"]})
    run.finish()
    *frames, result = await peer.follow(run.id)
    assert result["type"] == "job.result"
    for frame in frames:
        assert frame["type"] == "job.event"
        assert (frame["job_id"], frame["trace_id"]) == (run.id, "b" * 32)
        assert frame["payload"]["ts"].endswith("Z")
    assert [(f["payload"]["kind"], f["payload"]["body"]) for f in frames] == [
        ("log", {"level": "warn", "message": "hello"}),
        ("thought", {"text": "hm"}),
        ("tool_call", {"tool": "search", "args": {"q": 1}, "call_id": "c1"}),
        ("tool_result", {"call_id": "c1", "result": {"hits": 2}}),
        (
            "tool_result",
            {"call_id": "c2", "error": {"code": "X", "message": "no", "retryable": False}},
        ),
        ("status", {"phase": "phase", "message": "so far"}),
        ("metric", {"name": "latency", "value": 1.5, "unit": "ms", "dimensions": {"a": "b"}}),
        (
            "artifact_ref",
            {"uri": "file:///x", "content_type": "text/plain", "byte_size": 3, "sha256": "00"},
        ),
        ("progress", {"current": 47, "total": 120, "units": "files", "message": "x.ts"}),
        ("x-vendor.mine", {"any": ["thing"]}),
    ]


@requirement("R-8.2-2", "R-8.2-3")
async def test_progress(world: World) -> None:
    peer = await world.peer()
    run = await world.job(peer)
    for wrong in (-1, -0.5, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="0 or more"):
            await run.job.progress(wrong)
    await run.job.progress(0)
    await run.job.progress(130, total=120)
    run.finish()
    told = bodies(await peer.follow(run.id), "progress")
    assert told == [{"current": 0}, {"current": 130, "total": 120}]


@requirement("R-8.4-1", "R-8.4-2", "R-8.4-3", "R-8.4-4")
@pytest.mark.parametrize("closed", [True, False])
async def test_a_streamed_result(world: World, closed: bool) -> None:
    peer = await world.peer()
    run = await world.job(peer)
    await run.job.chunk("текст ")
    await run.job.log("between")
    await run.job.chunk(b"\x00\xff", more=not closed)
    run.finish()
    frames = await peer.follow(run.id)
    chunks = bodies(frames, "result_chunk")
    assert [c["chunk_seq"] for c in chunks] == list(range(len(chunks)))
    assert [c["encoding"] for c in chunks][:2] == ["utf8", "base64"]
    assert [c["more"] for c in chunks] == [True] * (len(chunks) - 1) + [False]
    (result_id,) = {c["result_id"] for c in chunks}
    result = frames[-1]["payload"]
    assert (result["final_status"], result["result_id"]) == ("success", result_id)
    assert "result" not in result
    whole = b"".join(
        c["data"].encode() if c["encoding"] == "utf8" else base64.b64decode(c["data"])
        for c in chunks
    )
    assert whole == "текст ".encode() + b"\x00\xff"
    assert result["result_size"] == len(whole)


@requirement("R-8.4-5")
async def test_a_value_after_chunks_is_refused(world: World) -> None:
    peer = await world.peer()
    run = await world.job(peer)
    await run.job.chunk("a")
    run.finish("inline too")
    last = (await peer.follow(run.id))[-1]
    assert (last["type"], last["payload"]["code"]) == ("job.error", "INTERNAL_ERROR")


@requirement("R-14-5")
@pytest.mark.parametrize("pieces", [["x" * 101], ["x" * 100] * 3])
async def test_chunks_and_streamed_results_are_capped(worlds: Worlds, pieces: Any) -> None:
    world = await worlds(limits=Limits(chunk_bytes=100, result_bytes=250))
    peer = await world.peer()
    run = await world.job(peer)
    with pytest.raises(Exception, match="over the limit") as refused:
        for piece in pieces:
            await run.job.chunk(piece)
    run.fail(refused.value)
    last = (await peer.follow(run.id))[-1]["payload"]
    assert (last["code"], last["final_status"]) == ("INTERNAL_ERROR", "error")
