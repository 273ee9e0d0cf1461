"""Chunks come back from their file as they went in, but for a line that was cut short."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from arcp_client._dispatch.assembler import Assembler
from arcp_client.events import ResultChunk
from arcp_client.stores.spool import ChunkLog


def chunk(n: int, data: str, **more: object) -> ResultChunk:
    return ResultChunk(result_id="r", chunk_seq=n, data=data, job_id="job", **more)  # type: ignore[arg-type]


def test_chunks_survive_their_writer(tmp_path: Path) -> None:
    log = ChunkLog(tmp_path / "results", "job")
    half = chunk(1, "\ud83d")
    for piece in (chunk(0, "über\n"), half, chunk(2, "\ude00", more=False)):
        log.append(piece)
    assert oct(log.path.stat().st_mode & 0o777) == "0o600"
    assert oct(log.path.parent.stat().st_mode & 0o777) == "0o700"
    again = Assembler("job")
    again.restore(ChunkLog(tmp_path / "results", "job"))
    again.finish("r")
    assert again.value() == "über\n😀"
    log.remove()
    log.remove()
    assert not log.path.exists()


@pytest.mark.parametrize("cut", range(1, 20))
def test_a_line_that_was_cut_short_is_written_anew(tmp_path: Path, cut: int) -> None:
    log = ChunkLog(tmp_path, "job")
    log.append(chunk(0, "a"))
    log.append(chunk(1, "b"))
    log.close()
    log.path.write_bytes(log.path.read_bytes()[:-cut])
    second = Assembler("job", log=lambda: ChunkLog(tmp_path, "job"))
    second.restore(ChunkLog(tmp_path, "job"))
    assert second.size == 1
    second.add(chunk(1, "b"))
    second.add(chunk(2, "c", more=False))
    second.finish("r")
    third = Assembler("job")
    third.restore(ChunkLog(tmp_path, "job"))
    third.finish("r")
    assert third.value() == second.value() == "abc"


def test_no_file_is_no_chunks(tmp_path: Path) -> None:
    assert list(ChunkLog(tmp_path, "job")) == []


def test_a_disk_that_takes_nothing_is_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "results").write_text("in the way")
    log = ChunkLog(tmp_path / "results", "job_7")
    with caplog.at_level(logging.ERROR):
        log.append(chunk(0, "a"))
        log.append(chunk(1, "b"))
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "job_7" in caplog.text
