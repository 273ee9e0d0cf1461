"""A recorded job is shown, and ends, as it did; what is missing of it is never a success."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from arcp_client import errors, events
from arcp_client.cli.actions.replay import read_speed, replay
from arcp_client.cli.exit_codes import CommandError, Exit
from arcp_client.cli.output_format import Output
from arcp_client.transcripts import EndLine, EventLine, JobLine, Line, outcome, write


@pytest.fixture(autouse=True)
def logger() -> Iterator[None]:
    """Commands log to stderr; the tests behind this one do not."""
    logger = logging.getLogger("arcp_client")
    before = list(logger.handlers), logger.propagate
    yield
    logger.handlers[:], logger.propagate = before


DONE = events.Completed(value={"a": 1}, job_id="j")


def of(*found: events.Event, job: str = "j", begin: float = 0.0) -> list[Line]:
    """A job's lines, a second apart."""
    lines: list[Line] = [JobLine(at=begin, job_id=job, agent="agent@1")]
    for n, event in enumerate(found, 1):
        lines.append(EventLine(at=begin + n, event=event, job_id=event.job_id or job))
    return lines


def show(path: Path, **options: Any) -> int:
    """Replay it; the exit code."""
    given: dict[str, Any] = {"job_id": None, "speed": None, "start": 1, "output": Output.JSONL}
    try:
        return int(replay(path, **{**given, **options}))
    except CommandError as problem:
        return int(problem.code)


def told(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


# ------------------------------------------------------------------------- as it was


def test_everything_is_shown_in_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t"
    found = [
        events.Log(message="m", seq=1, job_id="j"),
        events.Unknown(kind="x", body=[1], job_id="j"),
        DONE,
    ]
    write(path, [*of(*found), outcome("j", "success", 3.0), EndLine(at=3.0)])
    assert show(path) == 0
    first, *middle, last = told(capsys.readouterr().out)
    assert (first["type"], first["job_id"], first["agent"]) == ("job", "j", "agent@1")
    assert [line["event"] for line in middle] == [event.to_dict() for event in found]
    assert (last["type"], last["status"], last["result"]) == ("outcome", "success", {"a": 1})


@pytest.mark.parametrize("output", list(Output))
def test_the_result_is_on_stdout_and_the_rest_is_not(
    output: Output, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t"
    write(path, [*of(events.Log(message="hello"), DONE), EndLine()])
    assert show(path, output=output) == 0
    said = capsys.readouterr()
    if output is Output.TEXT:
        assert json.loads(said.out) == {"a": 1}
        assert "hello" in said.err
    else:
        assert told(said.out)[-1]["result"] == {"a": 1}
        assert said.err == ""


ERRORS = [
    (errors.JobFailed("m", code="X"), Exit.FAILED),
    (errors.JobCancelled("m", code="CANCELLED"), Exit.FAILED),
    (errors.JobTimedOut("m", code="TIMEOUT"), Exit.TIMED_OUT),
    (errors.LeaseExpired("m", code="LEASE_EXPIRED"), Exit.LEASE),
    (errors.JobFailed("m", code="PERMISSION_DENIED"), Exit.LEASE),
    (errors.JobLost("m"), Exit.GAP),
    (errors.ResultIncomplete("m"), Exit.GAP),
]


@pytest.mark.parametrize(("error", "code"), ERRORS, ids=lambda value: type(value).__name__)
def test_it_ends_as_it_did(
    error: errors.ArcpError, code: Exit, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t"
    write(path, [*of(), outcome("j", "error", 1.0, error=error), EndLine()])
    with pytest.raises(CommandError) as ended:
        replay(path, job_id=None, speed=None, start=1, output=Output.JSON)
    assert ended.value.code is code
    assert told(capsys.readouterr().out)[-1]["error"]["exit_code"] == code


def test_without_an_outcome_the_last_event_says_how_it_ended(tmp_path: Path) -> None:
    path = tmp_path / "t"
    failed = events.Failed(code="TIMEOUT", status="timed_out", job_id="j")
    write(path, [*of(failed), EndLine()])
    assert show(path) == Exit.TIMED_OUT


# ------------------------------------------------------------------------- what is missing


@pytest.mark.parametrize(
    "found",
    [
        [],
        [events.Log(message="m")],
        [events.Gap(first=2, last=4), DONE],
        [events.Gap(first=2, reason="unknown_end"), DONE],
        [events.Completed(result_id="r")],
        [events.ResultChunk(result_id="r", data="a"), events.Completed(result_id="r")],
        [
            events.ResultChunk(result_id="r", chunk_seq=1, data="a", more=False),
            events.Completed(result_id="r"),
        ],
        [
            events.ResultChunk(result_id="r", data="?", encoding="base64", more=False),
            events.Completed(result_id="r"),
        ],
    ],
)
def test_what_is_missing_is_no_success(found: list[events.Event], tmp_path: Path) -> None:
    path = tmp_path / "t"
    write(path, [*of(*found), EndLine()])
    assert show(path) == Exit.GAP


def test_a_gap_of_the_view_alone_is_no_hole(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write(path, [*of(events.Gap(first=1, last=9, reason="not_retained"), DONE), EndLine()])
    assert show(path) == 0


def test_a_file_that_was_cut_anywhere_is_no_success(tmp_path: Path) -> None:
    path, cut = tmp_path / "t", tmp_path / "cut"
    write(path, [*of(events.Log(message="m"), DONE), outcome("j", "success", 2.0), EndLine()])
    whole = path.read_bytes()
    assert show(path) == 0
    begin = whole.index(b"\n", whole.index(b"\n") + 1)  # behind the job's line
    for at in range(begin, len(whole) - 2):
        cut.write_bytes(whole[:at])
        assert show(cut) == Exit.GAP, at


# ------------------------------------------------------------------------- results


@pytest.mark.parametrize(
    ("chunks", "value"),
    [
        ([("a", "utf8"), ("b", "utf8")], "ab"),
        ([("AAH/", "base64")], {"encoding": "base64", "data": "AAH/"}),
        ([("x", "utf8"), ("AA==", "base64")], {"encoding": "base64", "data": "eAA="}),
    ],
)
def test_a_streamed_result_is_put_together(
    chunks: list[tuple[str, str]],
    value: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "t"
    pieces = [
        events.ResultChunk(
            result_id="r", chunk_seq=n, data=data, encoding=encoding, more=n + 1 < len(chunks)
        )
        for n, (data, encoding) in enumerate(chunks)
    ]
    write(path, [*of(*pieces, events.Completed(result_id="r")), EndLine()])
    for start in (1, 3):  # what is not shown belongs to the result all the same
        assert show(path, start=start) == 0
        assert told(capsys.readouterr().out)[-1]["result"] == value


# ------------------------------------------------------------------------- several jobs


def test_of_several_jobs_the_first_one_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t"
    lines = [*of(DONE), *of(events.Failed(code="X", job_id="k"), job="k"), EndLine()]
    write(path, lines)
    assert show(path) == 0
    said = capsys.readouterr()
    assert "k" in said.err
    assert "--job" in said.err
    assert show(path, job_id="k") == Exit.FAILED
    assert show(path, job_id="none") == Exit.NOT_FOUND
    write(path, [EndLine()], overwrite=True)
    assert show(path) == Exit.NOT_FOUND


def test_children_are_shown_with_their_parent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t"
    child = events.Log(message="I help", job_id="c")
    lines = of(events.Delegate(child_job_id="c", agent="helper", job_id="j"))
    lines += [JobLine(at=2.0, job_id="c", agent="helper"), EventLine(event=child, job_id="c")]
    lines += [EventLine(event=DONE, job_id="j"), EndLine()]
    write(path, lines)
    assert show(path, output=Output.TEXT) == 0
    said = capsys.readouterr().err
    assert "helper" in said
    assert "I help" in said
    assert "--job" not in said


# ------------------------------------------------------------------------- time


def test_events_come_at_their_distances(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t"
    write(path, [*of(*(events.Log(message=str(n)) for n in range(3)), DONE), EndLine()])
    slept: list[float] = []

    async def sleep(seconds: float, result: Any = None) -> None:
        slept.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    assert show(path, speed=0.5) == 0
    # Nobody waits here, so each delay is that from the beginning.
    assert [round(seconds) for seconds in slept if seconds >= 1] == [2, 4, 6]
    slept.clear()
    assert show(path, speed=0.5, start=3) == 0
    assert [round(seconds) for seconds in slept if seconds >= 1] == [2]


def test_a_replay_begins_with_the_event_that_was_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t"
    write(path, [*of(*(events.Log(message=f"m{n}") for n in range(1, 4)), DONE), EndLine()])
    assert show(path, start=3) == 0
    shown = [line["event"] for line in told(capsys.readouterr().out)[1:-1]]
    assert [event.get("message") for event in shown] == ["m3", None]


@pytest.mark.parametrize(("text", "speed"), [("1", 1.0), ("0.5", 0.5), ("max", None), ("1e3", 1e3)])
def test_speeds(text: str, speed: float | None) -> None:
    assert read_speed(text) == speed


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "fast", ""])
def test_what_is_no_speed(text: str) -> None:
    with pytest.raises(CommandError, match="not a speed") as refused:
        read_speed(text)
    assert refused.value.code is Exit.USAGE


@pytest.mark.parametrize("text", [None, "", "{}\n", "\0\xff"])
def test_what_is_no_transcript(text: str | None, tmp_path: Path) -> None:
    path = tmp_path / "t"
    if text is not None:
        path.write_text(text)
    assert show(path) == Exit.USAGE


def test_a_number_of_a_chunk_may_be_anything(tmp_path: Path) -> None:
    path = tmp_path / "t"
    chunk = events.ResultChunk(
        result_id="r", chunk_seq=10**15, data="a", more=False, seq=1, job_id="j"
    )
    done = events.Completed(result_id="r", seq=2, job_id="j")
    write(path, [*of(chunk, done), outcome("j", "success", 3.0), EndLine(at=3.0)])
    assert show(path) == Exit.GAP


def test_any_number_of_strangers_is_passed_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a time that grew with the cube of their number, this would take days."""
    path, most = tmp_path / "t", 20_000
    strangers = [
        JobLine(at=0.0, job_id=f"s{n}", parent_job_id=f"s{(n + 1) % most}") for n in range(most)
    ]
    write(path, [*of(DONE), *strangers, outcome("j", "success", 3.0), EndLine(at=3.0)])
    assert show(path) == 0
    assert "s2 and 19997 more" in capsys.readouterr().err
