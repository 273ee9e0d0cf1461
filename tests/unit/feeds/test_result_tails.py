"""The ends of results that arrive in pieces, as a page computes them."""

from __future__ import annotations

from typing import Any

import pytest

from arcp_client import events
from arcp_client._feeds import frames
from arcp_client._feeds.result_tails import ResultTails
from arcp_client.transcripts import Scrubber


def entry(data: str, seq: int, *, result: str = "r", more: bool = True, **form: Any) -> bytes:
    piece = events.ResultChunk(result_id=result, chunk_seq=seq, data=data, more=more, **form)
    return frames.entry(0, frames.plain(piece, Scrubber()))


def test_pieces_are_joined_without_duplicates() -> None:
    tails = ResultTails()
    for seq in (0, 1, 1, 0, 2):
        tails.take(entry(f"{seq};", seq))
    tails.take(entry("end", 5, more=False))
    assert tails.to_list() == [
        {
            "id": "r", "chunks": 4, "next": 6, "size": 9, "text": "0;1;2;end", "cut": 0,
            "binary": False, "missing": 2, "done": True,
        }
    ]  # fmt: skip


def test_only_the_end_of_a_long_text_and_the_last_results_are_kept() -> None:
    tails = ResultTails()
    for seq in range(400):
        tails.take(entry("é" * 1000, seq))
    (one,) = tails.to_list()
    assert len(one["text"]) <= 64 * 1024
    assert len(one["text"]) + one["cut"] == 400_000
    assert one["size"] == 800_000
    for n in range(9):
        tails.take(entry("x", 0, result=f"r{n}"))
    assert [each["id"] for each in tails.to_list()] == [f"r{n}" for n in range(1, 9)]


def test_bytes_are_counted_and_not_kept() -> None:
    tails = ResultTails()
    tails.take(entry("AAECAw==", 0, encoding="base64"))
    (one,) = tails.to_list()
    assert (one["binary"], one["size"], one["text"]) == (True, 4, "")


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb"])
def test_a_lone_surrogate_is_no_failure(text: str) -> None:
    tails = ResultTails()
    tails.take(entry(text, 0))
    assert tails.to_list()[0]["chunks"] == 1
