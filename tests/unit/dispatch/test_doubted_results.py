"""Chunked results after a gap: complete, or said to be incomplete; never short (S4, §8.4)."""

from __future__ import annotations

import pytest

from arcp_client._dispatch.assembler import Assembler
from arcp_client.errors import ResultIncomplete
from arcp_client.events import ResultChunk
from tests.interop.rules import rule


def assembled(
    *texts: str, last: bool = False, doubted: bool = True, exact: bool = False
) -> Assembler:
    """An assembler that got these chunks, the first one being number 0."""
    assembler = Assembler("job", exact=lambda: exact)
    for number, text in enumerate(texts):
        more = not (last and number == len(texts) - 1)
        assembler.add(ResultChunk(result_id="r", chunk_seq=number, data=text, more=more))
    if doubted:
        assembler.mark_lossy()
    return assembler


def test_a_last_chunk_shows_that_nothing_is_missing() -> None:
    assembler = assembled("a", "b", last=True)
    assembler.finish("r", None)
    assert assembler.value() == "ab"


def test_so_does_the_size_that_the_runtime_states() -> None:
    assembler = assembled("a", "b")
    assembler.finish("r", 2)
    assert assembler.value() == "ab"


@pytest.mark.parametrize("size", [None, 3])
def test_else_the_end_may_be_among_what_was_lost(size: int | None) -> None:
    assembler = assembled("a", "b")
    assembler.finish("r", size)
    with pytest.raises(ResultIncomplete) as caught:
        assembler.value()
    assert caught.value.partial == "ab"
    assert caught.value.missing == (2,)


@pytest.mark.parametrize("size", [None, 1])
@rule("accept-17")
def test_without_a_gap_the_terminal_message_is_the_end(size: int | None) -> None:
    # Some runtimes mark no chunk as the last one, and state a size that is not exact.
    assembler = assembled("a", "b", doubted=False)
    assembler.finish("r", size)
    assert assembler.value() == "ab"


@pytest.mark.parametrize("exact", [False, True])
def test_s19_bytes_that_are_missing_where_no_chunk_was_the_last_are_an_end_that_never_came(
    exact: bool, caplog: pytest.LogCaptureFixture
) -> None:
    assembler = assembled("12345", "12345", doubted=False, exact=exact)
    assembler.finish("r", 15)
    with pytest.raises(ResultIncomplete, match="has 10 bytes, the runtime stated 15") as caught:
        assembler.value()
    assert (caught.value.missing, caught.value.partial) == ((2,), "1234512345")
    assert caplog.records[-1].levelname == "WARNING"


@pytest.mark.parametrize("size", [1, 26])
def test_s19_a_size_that_is_exact_decides_though_the_last_chunk_came(
    size: int, caplog: pytest.LogCaptureFixture
) -> None:
    assembler = assembled("12345" * 5, last=True, doubted=False, exact=True)
    assembler.finish("r", size)
    with pytest.raises(
        ResultIncomplete, match=f"has 25 bytes, the runtime stated {size}"
    ) as caught:
        assembler.value()
    assert (caught.value.missing, caught.value.partial) == ((), "12345" * 5)


@pytest.mark.parametrize("size", [1, 24, 26])
def test_s19_one_that_is_not_exact_is_a_warning_once_the_last_chunk_came(
    size: int, caplog: pytest.LogCaptureFixture
) -> None:
    assembler = assembled("12345" * 5, last=True, doubted=False)
    assembler.finish("r", size)
    assert assembler.value() == "12345" * 5
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert f"has 25 bytes, its runtime stated {size}" in caplog.text


def test_an_estimate_of_base64_counts_its_padding_and_misses_nothing() -> None:
    assembler = Assembler("job")
    for number in range(2):
        chunk = ResultChunk(result_id="r", chunk_seq=number, data="YQ==", encoding="base64")
        assembler.add(chunk)
    assembler.finish("r", 6)
    assert assembler.value() == b"aa"


@pytest.mark.parametrize("exact", [False, True])
async def test_s19_reading_along_and_the_value_agree(exact: bool) -> None:
    assembler = assembled("12345", doubted=False, exact=exact)
    assembler.finish("r", 26)
    came: list[bytes] = []

    async def never(_: object) -> None:
        raise AssertionError("nothing more comes")

    with pytest.raises(ResultIncomplete):
        async for chunk in assembler.chunks(never):
            came += [chunk]
    assert came == [b"12345"]


def test_a_result_of_which_nothing_came_is_incomplete() -> None:
    assembler = Assembler("job")
    assembler.finish("r", 10)
    with pytest.raises(ResultIncomplete) as caught:
        assembler.value()
    assert caught.value.missing == (0,)


async def test_reading_along_ends_with_the_error_and_not_quietly() -> None:
    assembler = assembled("a")
    assembler.finish("r", 2)
    came: list[bytes] = []

    async def never(_: object) -> None:
        raise AssertionError("nothing more comes")

    with pytest.raises(ResultIncomplete):
        async for chunk in assembler.chunks(never):
            came += [chunk]
    assert came == [b"a"]
