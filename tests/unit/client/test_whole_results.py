"""A result is whole, or said to be incomplete, the same by `result`, `chunks` and `save` (S19)."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from tenacity import wait_fixed

from arcp_client import ArcpError, Client, JobContext, JobHandle, Reconnect, Runtime, Timeouts
from arcp_client.errors import JobFailed, ResultIncomplete, Unauthenticated
from arcp_client.testing import ScriptedRuntime, VirtualClock
from arcp_client.testing.scripted import Emit, Fail, Finish, Raw, Refuse, Script, Wait
from tests.dialects import PLAYED
from tests.interop.rules import rule

EXACT = ("spec",)


def chunk(number: int, **body: Any) -> Raw:
    whole = {"result_id": "r", "chunk_seq": number, "encoding": "utf8", "more": True, **body}
    payload = {"kind": "result_chunk", "ts": f"2026-01-01T00:00:0{number}Z", "body": whole}
    return Raw(
        {"type": "job.event", "id": f"c{number}", "event_seq": number + 1, "payload": payload}
    )


def end(number: int, size: int | None) -> Raw:
    payload = {"final_status": "success", "result_id": "r", "result_size": size}
    return Raw(
        {
            "type": "job.result",
            "id": "end",
            "event_seq": number + 1,
            "payload": {name: value for name, value in payload.items() if value is not None},
        }
    )


async def outcomes(job: JobHandle, path: Path) -> list[Any]:
    """What `result`, `chunks` and `save` give or raise."""
    found: list[Any] = []
    try:
        found.append((await job.result()).value)
    except ArcpError as error:
        found.append(error)
    try:
        found.append(b"".join([data async for data in job.chunks()]))
    except ArcpError as error:
        found.append(error)
    try:
        await job.save(path)
        found.append(path.read_bytes())
    except ArcpError as error:
        found.append(error)
        assert not path.exists()
    return found


def run(dialect: str, script: Script, path: Path) -> list[Any]:
    async def scenario() -> list[Any]:
        async with (
            ScriptedRuntime(dialect, agents={"a": script}) as runtime,
            Client(runtime, token="t", timeouts=Timeouts(close=1)) as client,
        ):
            return await outcomes(await client.submit("a"), path)

    return VirtualClock().run(scenario())


every_dialect = pytest.mark.parametrize("dialect", PLAYED)


@rule("note-11")
@every_dialect
def test_s19_a_result_whose_last_chunk_never_came_is_incomplete(
    dialect: str, tmp_path: Path
) -> None:
    chunks = [chunk(n, data="12345") for n in range(4)]
    found = run(dialect, [*chunks, end(4, 25)], tmp_path / "out")
    for error in found:
        assert isinstance(error, ResultIncomplete)
        assert (error.missing, error.partial) == ((4,), "12345" * 4)


@rule("note-11")
@every_dialect
def test_s19_a_size_that_contradicts_is_an_error_where_sizes_are_exact_else_a_warning(
    dialect: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    chunks = [chunk(n, data="12345", more=n < 4) for n in range(5)]
    found = run(dialect, [*chunks, end(5, 26)], tmp_path / "out")
    if dialect in EXACT:
        assert all(isinstance(error, ResultIncomplete) for error in found)
    else:
        assert found == ["12345" * 5, b"12345" * 5, b"12345" * 5]
    warnings = [r for r in caplog.records if "runtime stated 26" in r.getMessage()]
    assert [record.levelno for record in warnings] == [logging.WARNING]


@every_dialect
@pytest.mark.parametrize("body", [{}, {"data": None}], ids=["absent", "null"])
@pytest.mark.parametrize("at", range(3))
@pytest.mark.parametrize("size", [None, 15])
def test_s19_a_chunk_without_data_is_malformed_and_its_result_incomplete(
    dialect: str, body: dict[str, Any], at: int, size: int | None, tmp_path: Path
) -> None:
    chunks = [chunk(n, more=n < 2, **(body if n == at else {"data": "12345"})) for n in range(3)]
    found = run(dialect, [*chunks, end(3, size)], tmp_path / "out")
    for error in found:
        assert isinstance(error, ResultIncomplete)
        assert error.missing == (at,)


@every_dialect
def test_s20_half_a_character_is_replaced_alike_wherever_a_result_is_read(
    dialect: str, tmp_path: Path
) -> None:
    whole = "a\ufffdb\ufffd😀"
    inline = run(dialect, [Finish("a\ud800b\udc00😀")], tmp_path / "inline")
    assert inline == [whole, b"", whole.encode()]
    texts = ["a\ud800", "b\udc00\ud83d", "\ude00"]
    chunks = [chunk(n, data=text, more=n < 2) for n, text in enumerate(texts)]
    assert run(dialect, [*chunks, end(3, None)], tmp_path / "chunks") == [
        whole,
        whole.encode(),
        whole.encode(),
    ]


def test_s20_names_and_texts_within_a_value_are_whole_too(tmp_path: Path) -> None:
    value, _, saved = run("spec", [Finish({"a\ud800": ["\udc00"]})], tmp_path / "inline")
    assert value == {"a\ufffd": ["\ufffd"]}
    assert b"\\ufffd" in saved


@pytest.mark.parametrize(
    ("chunks", "why"),
    [
        ([chunk(0, data="a"), chunk(0, data="b")], "arrived twice, with different contents"),
        ([chunk(0, data="a"), chunk(1, data="b", result_id="s")], "chunks of two results"),
        ([chunk(0, data="a", encoding="base64")], "cannot be decoded"),
        ([chunk(0, data="a", encoding="rot13")], "unknown encoding"),
    ],
)
def test_s19_what_else_is_wrong_with_chunks_is_named(
    chunks: list[Raw], why: str, tmp_path: Path
) -> None:
    frames = [Raw({**raw.frame, "id": f"e{n}", "event_seq": n + 1}) for n, raw in enumerate(chunks)]  # type: ignore[dict-item]
    found = run("spec", [*frames, end(len(frames), None)], tmp_path / "out")
    for error in found:
        assert isinstance(error, ResultIncomplete)
        assert why in str(error)


def test_s19_a_job_that_failed_fails_alike(tmp_path: Path) -> None:
    found = run("spec", [chunk(0, data="a"), Fail("INTERNAL_ERROR", "no")], tmp_path / "out")
    assert [type(error) for error in found] == [JobFailed] * 3


def test_s19_what_ended_the_client_is_raised_alike(tmp_path: Path) -> None:
    async def scenario() -> list[Any]:
        script = [Emit("progress", {"current": 1}), Wait("never")]
        async with ScriptedRuntime("spec", agents={"a": script}) as runtime:
            client = Client(runtime, token="t", reconnect=Reconnect(wait=wait_fixed(0.01)))
            await client.connect()
            job = await client.submit("a")
            await anext(aiter(job))
            revoked = Refuse("UNAUTHENTICATED", "the token is revoked")
            runtime.next("session.hello", *[revoked] * 9)
            runtime.drop()
            try:
                return await outcomes(job, tmp_path / "out")
            finally:
                await client.close()

    found = VirtualClock().run(scenario())
    assert [type(error) for error in found] == [Unauthenticated] * 3


@pytest.mark.parametrize(
    "pieces",
    [
        ["a\ud83d", "\ude00b"],
        ["\ud83d", b"\x00", "\ude00"],
        ["\ude00", "\ud83d"],
        ["\ud83d\ude00"],
        ["", "\ud83d", ""],
    ],
)
def test_s20_this_packages_runtime_states_the_size_that_its_client_counts(
    pieces: list[str | bytes],
) -> None:
    async def scenario() -> None:
        async with Runtime() as runtime:

            @runtime.agent("a")
            async def a(input: Any, job: JobContext) -> None:
                for piece in pieces:
                    await job.chunk(piece)

            async with Client(runtime) as client:
                result = await (await client.submit("a")).result()
                value = result.value
                assert len(value if isinstance(value, bytes) else value.encode()) == result.size

    VirtualClock().run(scenario())
