"""Chunks of a result in, the result out (D13, §8.4)."""

from __future__ import annotations

import asyncio
import base64
import io
from typing import Any

import pytest

from arcp_client._dispatch.assembler import Assembler
from arcp_client.errors import JobLost, ResultIncomplete
from arcp_client.events import ResultChunk


def text(number: int, data: str, *, more: bool = True, result: str = "res_1") -> ResultChunk:
    return ResultChunk(result_id=result, chunk_seq=number, data=data, encoding="utf8", more=more)


def binary(number: int, data: bytes) -> ResultChunk:
    encoded = base64.b64encode(data).decode()
    return ResultChunk(
        result_id="res_1", chunk_seq=number, data=encoded, encoding="base64", more=True
    )


def joined(*chunks: ResultChunk, result_id: str | None = "res_1", size: int | None = None) -> Any:
    assembler = Assembler("job_1")
    for chunk in chunks:
        assembler.add(chunk)
    assembler.finish(result_id, size)
    return assembler.value()


async def never(_: asyncio.Future[None]) -> None:
    raise AssertionError("waited although the job has ended")


def test_text_is_joined_to_text_and_anything_else_to_bytes() -> None:
    """D9."""
    assert joined(text(0, "a"), text(1, "é", more=False)) == "aé"
    assert joined(binary(0, b"\0"), text(1, "a")) == b"\0a"


def test_chunks_ahead_of_a_missing_one_wait_for_it() -> None:
    """Order is that of ``chunk_seq``."""
    assert joined(text(2, "c"), text(0, "a"), text(1, "b")) == "abc"


class Chunks:
    """A log of chunks."""

    def __init__(self) -> None:
        self.kept: list[ResultChunk] = []
        self.closed = 0

    def append(self, chunk: ResultChunk) -> None:
        self.kept.append(chunk)

    def close(self) -> None:
        self.closed += 1


@pytest.mark.parametrize("failed", [True, False])
def test_a_log_gets_each_chunk_once_and_is_closed_with_the_result(failed: bool) -> None:
    log = Chunks()
    assembler = Assembler("job_1", log=lambda: log)
    chunks = [text(0, "a"), text(2, "c"), text(1, "b")]
    for chunk in (*chunks, chunks[0], chunks[1]):
        assembler.add(chunk)
    assert (log.kept, log.closed) == (chunks, 0)
    if failed:
        assembler.fail(JobLost("gone"))
    else:
        assembler.finish("res_1")
    assembler.fail(JobLost("again"))
    assembler.add(text(3, "d"))
    assert (log.kept, log.closed) == (chunks, 1)


@pytest.mark.parametrize("numbers", [(0, 2), (1, 2)])
def test_a_missing_chunk_makes_the_result_incomplete(numbers: tuple[int, ...]) -> None:
    """Never joined over a hole, nor from the middle on."""
    with pytest.raises(ResultIncomplete) as caught:
        joined(*(text(n, str(n)) for n in numbers))
    assert caught.value.missing == tuple(n for n in range(max(numbers)) if n not in numbers)


def test_an_equal_repeat_is_tolerated_and_a_different_one_is_not() -> None:
    """Repeats come with a resume."""
    assert joined(text(0, "a"), text(1, "b"), text(0, "a"), text(1, "b")) == "ab"
    for repeated in (text(0, "A"), text(1, "B")):
        with pytest.raises(ResultIncomplete, match="twice"):
            joined(text(0, "a"), text(1, "b"), repeated)
    with pytest.raises(ResultIncomplete, match="twice"):
        joined(text(1, "b"), text(1, "B"), text(0, "a"))


def test_base64_is_read_strictly() -> None:
    junk = ResultChunk(result_id="res_1", chunk_seq=0, data="ab$=", encoding="base64", more=True)
    with pytest.raises(ResultIncomplete, match="cannot be decoded"):
        joined(junk)


def test_beyond_eight_mebibytes_it_is_in_a_file() -> None:
    """K4, D13: memory is bounded, the result is not."""
    assembler = Assembler("job_1")
    piece = b"x" * (1024 * 1024)
    for n in range(9):
        assembler.add(binary(n, piece))
    assert not isinstance(assembler._file, io.BytesIO)
    assembler.finish("res_1", 9 * len(piece))
    assert assembler.value() == piece * 9


def test_the_terminal_event_says_what_is_the_end_and_not_the_last_chunk() -> None:
    """Several runtimes send an empty chunk more, or never a last one."""
    assert joined(text(0, "a", more=False), text(1, "", more=False)) == "a"
    assert joined(text(0, "a"), text(1, "b")) == "ab"
    assert joined(text(0, "a"), result_id=None) == "a"
    assert joined(text(0, "é"), size=1) == "é"


@pytest.mark.parametrize(("stated", "missing"), [(1, ()), (3, (1,)), (300, (1,))])
def test_a_result_that_is_shorter_than_stated_lacks_its_next_chunk(
    stated: int, missing: tuple[int, ...]
) -> None:
    assembler = Assembler("job_1", exact=lambda: True)
    assembler.add(text(0, "ab"))
    assembler.finish("res_1", stated)
    assert assembler.missing() == missing
    with pytest.raises(ResultIncomplete):
        assembler.value()


def test_chunks_of_another_result_make_it_incomplete() -> None:
    with pytest.raises(ResultIncomplete, match="two results"):
        joined(text(0, "a"), text(1, "b", result="res_2"))
    with pytest.raises(ResultIncomplete, match="res_2"):
        joined(text(0, "a"), result_id="res_2")


def test_a_character_cut_in_two_is_one_again() -> None:
    """A runtime that slices by UTF-16 units."""
    assert joined(text(0, "\ud83d"), text(1, "\ude00")) == "😀"
    assert joined(text(0, "a\ud83d"), text(1, "b")) == "a\ufffdb"
    assert joined(text(0, "a\ud83d")) == "a\ufffd"


async def test_chunks_can_be_read_while_they_come() -> None:
    assembler = Assembler("job_1")
    assembler.add(text(0, "a"))
    given: list[bytes] = []

    async def more(news: asyncio.Future[None]) -> None:
        assembler.add(text(len(given), "b"))
        if len(given) == 2:
            assembler.finish("res_1")
        await news

    given.extend([chunk async for chunk in _noting(assembler, more, given)][:0])
    assert given == [b"a", b"b", b"b"]


async def _noting(assembler: Assembler, wait: Any, given: list[bytes]) -> Any:
    async for chunk in assembler.chunks(wait):
        given.append(chunk)
        yield chunk


async def test_reading_ends_at_the_place_where_a_chunk_is_missing() -> None:
    assembler = Assembler("job_1")
    assembler.add(text(0, "a"))
    assembler.add(text(2, "c"))
    assembler.finish("res_1")
    given: list[bytes] = []
    with pytest.raises(ResultIncomplete):
        async for chunk in assembler.chunks(never):
            given.append(chunk)  # noqa: PERF401
    assert given == [b"a"]


async def test_a_lost_job_ends_the_reading() -> None:
    assembler = Assembler("job_1")
    assembler.fail(JobLost("gone"))
    with pytest.raises(JobLost):
        async for _ in assembler.chunks(never):
            pass
