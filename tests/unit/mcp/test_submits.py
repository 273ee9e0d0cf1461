"""Submits in files: private, bounded, and never a reason for a call to fail."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

pytest.importorskip("mcp")

from arcp_client.mcp import FileSubmits, Submits
from arcp_client.mcp import submits as module

SUBMIT = {"agent": "a", "input": {"x": [1]}, "idempotency_key": "k"}


async def test_a_submit_is_found_by_another_object_and_only_by_its_job(tmp_path: Path) -> None:
    await FileSubmits(tmp_path / "kept").keep("job_1", SUBMIT)
    assert await FileSubmits(tmp_path / "kept").find("job_1") == SUBMIT
    assert await FileSubmits(tmp_path / "kept").find("job_2") is None
    assert await FileSubmits(tmp_path / "none").find("job_1") is None
    assert isinstance(FileSubmits(tmp_path), Submits)


async def test_the_files_are_private_and_the_id_is_no_path(tmp_path: Path) -> None:
    await FileSubmits(tmp_path / "kept").keep("../../evil", SUBMIT)
    (file,) = (tmp_path / "kept").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert list(tmp_path.iterdir()) == [tmp_path / "kept"]


async def test_old_and_surplus_submits_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = FileSubmits(tmp_path)
    await kept.keep("old", SUBMIT)
    (file,) = tmp_path.iterdir()
    os.utime(file, (1, 1))
    await kept.keep("new", SUBMIT)
    assert await kept.find("old") is None
    monkeypatch.setattr(module, "_MOST", 3)
    for n in range(5):
        await kept.keep(f"job_{n}", SUBMIT)
    assert len(list(tmp_path.iterdir())) == 3
    assert await kept.find("job_4") == SUBMIT


async def test_a_directory_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    kept = FileSubmits(tmp_path / "file" / "below")
    await kept.keep("job_1", SUBMIT)
    assert await kept.find("job_1") is None


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b"\xff"])
async def test_a_damaged_file_counts_as_missing(tmp_path: Path, data: bytes) -> None:
    kept = FileSubmits(tmp_path)
    await kept.keep("job_1", SUBMIT)
    (file,) = tmp_path.iterdir()
    file.write_bytes(data)
    assert await kept.find("job_1") is None
