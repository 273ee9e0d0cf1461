"""What is kept of a run: for the user alone, one process at a time, and not for ever."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from arcp_client.cli.actions import saved_runs
from arcp_client.models import Checkpoint

WRITTEN: dict[str, Any] = {"agent": "a", "input": {"secret": 1}, "idempotency_key": "k"}
SUBMIT: dict[str, Any] = {**WRITTEN, "input": msgspec.Raw(b'{"secret":1}')}

RECORD: dict[str, Any] = {
    "schema": "arcp-client.run/1", "url": "u", "submit": WRITTEN, "began": 1.0,
    "profile": None, "save": None, "job_id": "j",
}  # fmt: skip


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "arcp-client" / "runs"


def begun(job_id: str | None = None, *, began: float | None = None) -> saved_runs.SavedRun:
    """A run as the process that follows it has it."""
    run = saved_runs.begin(url="ws://here/arcp", submit=SUBMIT)
    if began is not None:
        run.began = began
    if job_id is not None:
        run.accepted(job_id)
    return run


def test_it_is_found_again_by_its_job() -> None:
    begun().release()
    begun("job_1").release()
    kept = saved_runs.find("job_1")
    assert kept is not None
    assert (kept.submit, kept.url, kept.agent) == (SUBMIT, "ws://here/arcp", "a")
    assert saved_runs.find("job_2") is None
    assert [run.job_id for run in saved_runs.unfinished()] == ["job_1", None]


def test_it_is_for_the_user_alone(home: Path) -> None:
    begun("job_1")
    assert home.stat().st_mode & 0o777 == 0o700
    [directory] = home.iterdir()
    assert directory.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in directory.iterdir()} == {0o600}


async def test_the_checkpoint_is_for_the_user_alone_too(home: Path) -> None:
    run = begun("job_1")
    store = run.store(lambda: None)
    await store.acquire("t", "k")
    await store.save("t", "k", Checkpoint("s", "token"))
    assert {path.stat().st_mode & 0o777 for path in run.directory.iterdir()} == {0o600}
    await store.release("t", "k")


async def test_what_was_handed_over_is_shown_before_it_is_kept_that_it_was() -> None:
    shown: list[Checkpoint | None] = []
    run = begun("job_1")
    other = saved_runs.SavedRun(run.directory, run.url, run.submit).store(lambda: None)

    def flush() -> None:
        shown.append(None)

    store = run.store(flush)
    await store.acquire("t", "k")
    await store.save("t", "k", Checkpoint("s", "token", mark=7))
    await store.release("t", "k")
    assert shown == [None]
    kept = await other.acquire("t", "k")
    assert kept is not None
    assert kept.mark == 7
    await other.release("t", "k")


HOLD = """
import sys
from pathlib import Path
from arcp_client.cli.actions import saved_runs
run = saved_runs.SavedRun.read(Path(sys.argv[1]))
print(run.hold(), flush=True)
sys.stdin.read()
"""


def test_one_process_at_a_time_holds_it_and_kill_9_lets_go() -> None:
    run = begun("job_1")
    run.release()
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(run.directory)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as other:  # fmt: skip
        assert other.stdout is not None
        assert other.stdout.readline() == "True\n"
        assert not run.hold()
        run.over()
        assert saved_runs.find("job_1") is not None, "another process follows it"
        other.kill()
    assert run.hold()
    assert run.hold(), "again by the same process"


def test_nobody_goes_on_with_what_is_finished(home: Path) -> None:
    run = begun("job_1")
    run.finished()
    assert saved_runs.unfinished() == []
    assert run.directory.exists(), "its session is still written to"
    run.release()
    assert not run.hold()
    run.finished()
    again = begun("job_2")
    again.finished()
    again.over()
    assert not again.directory.exists()


def test_what_is_over_is_gone() -> None:
    run = begun("job_1")
    stale = saved_runs.find("job_1")
    assert stale is not None
    run.over()
    run.over()
    assert saved_runs.unfinished() == []
    assert not stale.hold()
    saved_runs.forget("job_1")


def test_what_nobody_came_back_for_is_swept_away(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun("old", began=1.0).release()
    held = begun("old and followed", began=1.0)
    torn = home / "torn"
    torn.mkdir()
    os.utime(torn, (1, 1))
    begun("new").release()
    assert {run.job_id for run in saved_runs.unfinished()} == {"old and followed", "new"}
    assert not torn.exists()
    held.release()
    monkeypatch.setattr(saved_runs, "MOST_RUNS", 2)
    begun("newer").release()
    begun("newest").release()
    assert [run.job_id for run in saved_runs.unfinished()] == ["newest", "newer", "new"]


@pytest.mark.parametrize(
    "record",
    ["", "{", "[]", "{}", "null", '{"schema": "arcp-client.run/1"}',
     json.dumps({"schema": "arcp-client.run/1", "url": "u", "submit": [], "odd": 1}),
     json.dumps({"schema": "arcp-client.run/1", "url": "u", "submit": {}, "odd": 1}),
     json.dumps({"schema": "arcp-client.run/9", "url": "u", "submit": {}}), "[" * 100_000,
     *(json.dumps({**RECORD, **wrong}) for wrong in (
         {"began": "x"}, {"began": None}, {"began": 1e300}, {"began": -1}, {"url": 1}, {"save": 1},
         {"job_id": 1}, {"profile": []}, {"submit": {"agent": 1}}, {"submit": {**WRITTEN, "x": 1}},
         {"submit": {**WRITTEN, "lease": [1]}}, {"submit": {**WRITTEN, "max_runtime": "1"}},
     ))],
)  # fmt: skip
def test_what_is_no_record_is_passed_over(home: Path, record: str) -> None:
    (home / "x").mkdir(parents=True)
    (home / "x" / "run.json").write_text(record)
    assert saved_runs.unfinished() == []
    begun("job_1").release()  # and it stands in nobody's way
    assert saved_runs.find("job_1") is not None


@pytest.mark.parametrize(
    "submit",
    [
        {"agent": "a"},
        SUBMIT,
        {**SUBMIT, "input": msgspec.Raw(b"null"), "lease": {"fs.read": ["/x"]}, "max_runtime": 2.5},
        {**SUBMIT, "lease": None, "max_runtime": None},
    ],
    ids=["agent", "input", "lease", "nulls"],
)
def test_what_was_submitted_is_kept_as_it_was(submit: dict[str, Any]) -> None:
    saved_runs.begin(url="u", submit=submit, profile="p").release()
    [run] = saved_runs.unfinished()
    assert run.submit == submit
    assert (run.url, run.profile, run.job_id) == ("u", "p", None)


def test_where_nothing_can_be_kept_that_is_said(home: Path) -> None:
    home.parent.mkdir(parents=True)
    home.write_text("a file where a directory is to be")
    with pytest.raises(OSError, match="runs"):
        saved_runs.begin(url="u", submit=SUBMIT)
    assert saved_runs.unfinished() == []


@pytest.mark.parametrize("job_id", ["../../etc/passwd", "a/b", "", "x" * 2000, "a\0b"])
def test_a_runtimes_job_id_leads_nowhere(job_id: str, home: Path) -> None:
    begun(job_id).release()
    assert len(list(home.iterdir())) == 1
    found = saved_runs.find(job_id)
    assert found is not None
    found.over()
    assert list(home.iterdir()) == []
