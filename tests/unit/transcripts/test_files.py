"""Transcripts are written line by line, and read back as they were, whatever a file holds."""

from __future__ import annotations

import dataclasses
import errno
import io
import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from arcp_client import Client, JobContext, Runtime, errors, events
from arcp_client.errors import JobFailed, TranscriptError
from arcp_client.models import RuntimeInfo, SessionInfo
from arcp_client.transcripts import (
    MASK,
    MAX_LINE,
    SCHEMA,
    EndLine,
    EventLine,
    Header,
    JobLine,
    Line,
    OtherLine,
    OutcomeLine,
    Reader,
    Recording,
    Scrubber,
    Writer,
    encode,
    entry,
    header,
    outcome,
    read,
    write,
)

MOMENT = datetime(2026, 5, 13, 19, 42, 13, 123_456, tzinfo=UTC)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
texts = st.text(max_size=20)
moments = st.datetimes(timezones=st.just(UTC))
times = st.floats(0, 1e9).map(lambda at: round(at, 6))
ids = st.text(min_size=1, max_size=10)
finite = json_values.map(lambda value: json.loads(json.dumps(value), parse_constant=str))
own_events: st.SearchStrategy[events.Event] = st.one_of(
    st.builds(
        events.Log, message=texts, level=texts, job_id=ids, ts=moments, seq=st.integers(0, 99)
    ),
    st.builds(events.ToolCall, tool=texts, args=finite, call_id=texts),
    st.builds(events.Progress, current=st.integers(), total=st.none() | st.floats(0, 1e9)),
    st.builds(events.Completed, value=finite, completed_at=moments, job_id=ids),
    st.builds(events.Failed, status=st.just("timed_out"), details=finite),
    st.builds(events.Gap, first=st.integers(0, 99), last=st.none() | st.integers(0, 99)),
    st.builds(events.Unknown, kind=st.just("x-vendor.acme.y"), body=finite),
)
lines: st.SearchStrategy[Line] = st.one_of(
    st.builds(
        JobLine, at=times, job_id=ids, agent=texts, status=texts, expires_at=st.none() | moments,
        lease=st.dictionaries(texts, st.lists(texts, max_size=2), max_size=2),
        budget=st.dictionaries(texts, texts, max_size=2), trace_id=st.none() | ids,
        parent_job_id=st.none() | ids,
    ),
    st.builds(entry, at=times, event=own_events, job_id=st.none() | ids),
    st.builds(
        OutcomeLine, at=times, job_id=ids, status=texts,
        error=st.none() | st.dictionaries(texts, finite, min_size=1, max_size=2),
    ),
    st.builds(
        OtherLine, at=times, kind=st.just("later"),
        extra=st.dictionaries(texts.filter(lambda name: name not in ("type", "at")), finite),
    ),
)  # fmt: skip
headers = st.builds(
    Header, created_at=st.none() | moments, dialect=texts, recorder=texts, scrubbed=st.booleans(),
    runtime=st.builds(RuntimeInfo, name=texts, version=texts),
)  # fmt: skip


def bytes_of(*parts: Line | bytes | str) -> bytes:
    made = [
        part
        if isinstance(part, bytes)
        else part.encode()
        if isinstance(part, str)
        else encode(part)
        for part in parts
    ]
    return b"".join(made)


def reader(*parts: Line | bytes | str, **options: Any) -> Reader:
    return Reader(io.BytesIO(bytes_of(*parts)), name="t", **options)


# ------------------------------------------------------------------------- round trips


@given(headers, st.lists(lines, max_size=5))
def test_what_was_written_is_read_as_it_was(first: Header, rest: list[Line]) -> None:
    end = EndLine(at=1.5, reason="interrupted")
    found = reader(first, *rest, end)
    assert found.header == first
    assert list(found) == [*rest, end]
    assert found.complete
    assert not found.cut


@given(st.lists(lines, max_size=5))
def test_what_was_read_is_written_as_it_was(rest: list[Line]) -> None:
    data = bytes_of(Header(), *rest)
    found = Reader(io.BytesIO(data))
    assert bytes_of(found.header, *found) == data


KNOWN_FIELDS = {"type", "schema", "event"}.union(
    field.name
    for line in (Header, JobLine, EventLine, OutcomeLine, EndLine)
    for field in dataclasses.fields(line)
)
later_fields = st.dictionaries(
    texts.filter(lambda name: name not in KNOWN_FIELDS), finite, max_size=3
)


@given(later_fields, st.dictionaries(texts, finite, max_size=3))
@example({"code": None}, {"seq": []})
def test_fields_of_a_later_version_survive(more: dict[str, Any], inner: dict[str, Any]) -> None:
    lines = [
        {"schema": SCHEMA, "type": "header", "at": 0.0, "scrubbed": True},
        {"type": "job", "at": 0.0, "job_id": "j"},
        {"type": "event", "at": 0.5, "event": {**inner, "kind": "log", "message": "m"}},
        {"type": "outcome", "at": 1.0, "job_id": "j"},
        {"type": "x-later", "at": 2.0},
        {"type": "end", "at": 3.0, "reason": "complete"},
    ]
    given = [{**more, **line} for line in lines]
    data = "".join(f"{json.dumps(line)}\n" for line in given)
    found = reader(data)
    again = [json.loads(encode(line)) for line in (found.header, *found)]
    assert again == given


def test_an_event_that_its_class_refuses_is_unknown_and_kept() -> None:
    fields = {"kind": "progress", "seq": 3, "job_id": "j", "current": {"later": 1}}
    (found,) = reader(Header(), json.dumps({"type": "event", "at": 1, "event": fields}), "\n")
    assert isinstance(found, EventLine)
    assert isinstance(found.event, events.Unknown)
    assert (found.event.kind, found.event.seq, found.event.job_id) == ("progress", 3, "j")
    assert found.event.body == fields
    assert json.loads(encode(found))["event"] == fields
    (odd,) = reader(Header(), '{"type":"event","event":{"kind":1,"seq":"x"}}\n')
    assert isinstance(odd, EventLine)
    assert odd.event == events.Unknown(body={"kind": 1, "seq": "x"})


def test_what_json_cannot_hold_becomes_a_text() -> None:
    deep: Any = 1
    for _ in range(50_000):
        deep = [deep]
    value = {
        "inf": float("inf"),
        "nan": float("nan"),
        "big": 10**5000,
        "deep": deep,
        "half": "\ud800",
    }
    args = json.loads(encode(OtherLine(kind="x", extra=value)))
    assert (args["inf"], args["nan"], args["half"]) == ("inf", "nan", "\ud800")
    assert int(args["big"], 16) == 10**5000
    assert "deeper" in str(args["deep"])


# ------------------------------------------------------------------------- hostile files


def refusal(data: bytes) -> TranscriptError | None:
    """Read it to its end, or to what is wrong with it."""
    try:
        list(Reader(io.BytesIO(data)))
    except TranscriptError as error:
        return error
    return None


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for whole in (data, bytes_of(Header(), data)):
        refused = refusal(whole)
        assert refused is None or f"line {refused.line}:" in str(refused)


@given(
    st.sampled_from(["header", "job", "event", "outcome", "end", "later"]),
    st.dictionaries(
        st.sampled_from(
            ["at", "event", "job_id", "lease", "budget", "error", "expires_at", "reason", "agent"]
        ),
        finite,
    ),
)
def test_any_fields_are_read_or_refused(kind: str, fields: dict[str, Any]) -> None:
    refused = refusal(bytes_of(Header(), json.dumps({"type": kind, **fields}), "\n"))
    assert refused is None or refused.line == 2


@pytest.mark.parametrize(
    ("data", "line", "why"),
    [
        (b"", 1, "not a transcript"),
        (b"{}\n", 1, "not a transcript"),
        (b"\x7fELF\x00\n", 1, "not a JSON object"),
        (b'{"schema":"arcp-client.transcript/2","type":"header"}\n', 1, "transcript/2"),
        (b'{"schema":"arcp-client.transcript/1","type":"end"}\n', 1, "header"),
        (bytes_of(Header(), b"[]\n"), 2, "not a JSON object"),
        (bytes_of(Header(), b"\n{\n"), 3, "not a JSON object"),
        (bytes_of(Header(), b'{"type":"job"}\n'), 2, "job_id is missing"),
        (bytes_of(Header(), b'{"type":"event"}\n'), 2, "must have an event"),
        (bytes_of(Header(), b'{"at":1}\n'), 2, "must have a type"),
        (bytes_of(Header(), b'{"type":"end","at":-1}\n'), 2, "at is"),
        (bytes_of(Header(), b'{"type":"end","at":NaN}\n'), 2, "not a JSON value"),
        (bytes_of(Header(), b'{"type":"end","at":1e999}\n'), 2, "at is"),
        (bytes_of(Header(), b'{"type":"end","at":' + b"9" * 400 + b"}\n"), 2, "at is"),
        (bytes_of(Header(), b'{"type":"job","job_id":"j","expires_at":"soon"}\n'), 2, "not a time"),
        (
            bytes_of(Header(), b'{"type":"job","job_id":"j","lease":{"a":[1]}}\n'),
            2,
            "list of strings",
        ),
        (bytes_of(Header(), b'"\xff"\n'), 2, "not a JSON object"),
        (bytes_of(Header(), b'{"type":"x","a":' + b"9" * 5000 + b"}\n"), 2, "not a JSON object"),
        (bytes_of(Header(), b"[" * 200_000 + b"\n"), 2, "not a JSON object"),
        (bytes_of(Header(), Header()), 2, "second header"),
        (bytes_of(Header(), EndLine(), EndLine()), 3, "after the end line"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(data: bytes, line: int, why: str) -> None:
    with pytest.raises(TranscriptError, match=why) as caught:
        list(Reader(io.BytesIO(data)))
    assert caught.value.line == line


def test_a_line_without_an_end_is_not_read_into_memory() -> None:
    class Endless(io.RawIOBase):
        given = 0

        def readline(self, size: int | None = -1, /) -> bytes:
            assert size is not None
            assert 0 < size <= 1001
            self.given += size
            return b"x" * size

    endless = Endless()
    with pytest.raises(TranscriptError, match="longer than 1,000 bytes"):
        Reader(endless, max_line=1000)  # type: ignore[arg-type]
    assert endless.given == 1001


@given(st.data(), st.lists(lines, min_size=1, max_size=4))
def test_of_a_file_that_was_cut_anywhere_whole_lines_are_read(
    data: st.DataObject, rest: list[Line]
) -> None:
    first = bytes_of(Header())
    whole = bytes_of(Header(), *rest, EndLine())
    at = data.draw(st.integers(len(first), len(whole) - 2))
    found = Reader(io.BytesIO(whole[:at]))
    read = list(found)
    assert read == rest[: len(read)]
    assert len(read) >= whole[:at].count(b"\n") - 1
    assert not found.complete


def test_a_tail_of_zeros_is_a_cut_too() -> None:
    found = reader(Header(), OtherLine(kind="x"), b"\0" * 100)
    assert list(found) == [OtherLine(kind="x")]
    assert found.cut


# ------------------------------------------------------------------------- writing


def test_each_line_is_in_the_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    with Writer(path) as writer:
        assert len(path.read_bytes().splitlines()) == 1
        writer.write(entry(events.Log(message="m"), 0.25))
        assert path.read_bytes().endswith(b"\n")
        with read(path) as found:
            assert [line.at for line in found] == [0.25]
    writer.close()
    with pytest.raises(ValueError, match="closed"):
        writer.write(EndLine())


def test_the_file_is_the_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    before = os.umask(0)
    try:
        Writer(path).close()
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_that_is_there_is_left_alone_unless_asked(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text("mine")
    path.chmod(0o644)
    with pytest.raises(FileExistsError):
        Writer(path)
    assert path.read_text() == "mine"
    with path.open() as held:
        Writer(path, overwrite=True).close()
        assert held.read() == "mine"  # whoever had it open sees nothing of the new one
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_link_is_replaced_and_not_written_through(tmp_path: Path) -> None:
    target, link = tmp_path / "precious", tmp_path / "t.jsonl"
    target.write_text("mine")
    link.symlink_to(target)
    Writer(link, overwrite=True).close()
    assert target.read_text() == "mine"


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_is_never_replaced(make: Callable[[Path], None], tmp_path: Path) -> None:
    special, link = tmp_path / "special", tmp_path / "link"
    make(special)
    link.symlink_to(special)
    for path in (special, link):
        with pytest.raises(FileExistsError):
            Writer(path, overwrite=True)
    assert special.exists()
    assert link.is_symlink()


def test_a_full_disk_leaves_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.jsonl"
    writer = Writer(path)
    file: Any = writer._file

    class Full:
        def __init__(self) -> None:
            self.room = 20

        def write(self, data: memoryview) -> int:
            if not self.room:
                raise OSError(errno.ENOSPC, "No space left on device")
            wrote: int = file.write(data[: self.room])
            self.room -= wrote
            return wrote

        def __getattr__(self, name: str) -> Any:
            return getattr(file, name)

    monkeypatch.setattr(writer, "_file", Full())
    with pytest.raises(OSError, match="No space"):
        writer.write(entry(events.Log(message="m" * 100), 0))
    writer.close()
    with read(path) as found:
        assert list(found) == []
        assert not found.cut


def test_a_killed_writer_leaves_a_file_that_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    program = f"""
import os, signal
from arcp_client import events
from arcp_client.transcripts import Writer, entry
writer = Writer({str(path)!r})
for n in range(100):
    writer.write(entry(events.Progress(current=n), n / 10))
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", program], timeout=40, check=False)
    assert done.returncode == -9
    with read(path) as found:
        assert [line.event.current for line in found] == list(range(100))  # type: ignore[attr-defined]
        assert not found.complete


def test_a_line_that_nobody_could_read_is_a_gap() -> None:
    file = io.BytesIO()
    with Writer(file) as writer:
        writer.write(entry(events.Log(message="x" * MAX_LINE, seq=7, job_id="j"), 1.0))
    assert not file.closed
    (found,) = Reader(io.BytesIO(file.getvalue()))
    assert isinstance(found, EventLine)
    gap = events.Gap(seq=7, job_id="j", first=7, last=7, reason="undecodable")
    assert found.event == gap


def test_write_writes_all(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    session = SessionInfo("s", runtime=RuntimeInfo("r", "1"), dialect="spec")
    write(path, [header(session), OtherLine(kind="x"), EndLine()])
    with read(path) as found:
        assert found.header.runtime == RuntimeInfo("r", "1")
        assert found.header.dialect == "spec"
        assert found.header.scrubbed
        assert len(list(found)) == 2
    write(path, [OtherLine(kind="x")], scrubber=None, overwrite=True)
    with read(path) as found:
        assert list(found) == [OtherLine(kind="x")]
        assert not found.header.scrubbed


# ------------------------------------------------------------------------- secrets


@pytest.mark.parametrize("secret", ["type", "event", "job_id", "kind", "log", "at", "seq"])
def test_a_secret_that_is_a_word_of_the_format_breaks_no_line(secret: str) -> None:
    event = events.Log(message=f"the word is {secret}", job_id="j", seq=1)
    data = bytes_of(Header()) + encode(entry(event, 1.0), Scrubber([secret]))
    (found,) = Reader(io.BytesIO(data))
    assert isinstance(found, EventLine)
    assert isinstance(found.event, events.Log)
    assert found.event.message == f"the word is {MASK}"


async def test_a_recording_of_a_job_holds_no_secret_of_it(tmp_path: Path) -> None:
    canary = "canary-5Vr9-secret"
    path = tmp_path / "t.jsonl"
    runtime = Runtime(auth={canary: "me"})

    @runtime.agent("leaky")
    async def leaky(input: Any, job: JobContext) -> Any:
        await job.log(f"my token is {canary}")
        await job.tool_call("curl", {"headers": {"Authorization": f"Bearer {canary}"}})
        await job.tool_call("login", ["--password", "canary-two"])
        await job.emit("x-vendor.acme.login", {"password": "canary-three"})
        raise JobFailed(f"refused {canary}", code="X", details={"api_key": "canary-four"})

    async with runtime, Client(runtime, token=canary) as client:
        job = await client.submit("leaky", {"password": "canary-five"})
        with Writer(path, header(client.session), scrubber=Scrubber([canary])) as writer:
            recording = Recording(writer)
            recording.began(job)
            async for event in job:
                recording.event(event)
            with pytest.raises(JobFailed) as failed:
                await job.result()
            recording.ended(job, failed.value)
            recording.end()
    assert b"canary" not in path.read_bytes()
    with read(path) as found:
        kinds = [type(line).__name__ for line in found]
        assert kinds[0] == "JobLine"
        assert kinds[-2:] == ["OutcomeLine", "EndLine"]
        assert found.complete


def test_offsets_never_go_back() -> None:
    now = [5.0]
    file = io.BytesIO()
    recording = Recording(Writer(file), clock=lambda: now[0])
    for at in (5.5, 4.0, 9.0):
        now[0] = at
        recording.event(events.Log())
    assert [line.at for line in Reader(io.BytesIO(file.getvalue()))] == [0.5, 0.5, 4.0]


def test_an_outcome_says_what_the_error_said() -> None:
    error = JobFailed("m", code="C", retryable=True, details={"a": 1})
    assert outcome("j", "error", 1.0, error=error).error == {
        "type": "JobFailed", "message": "m", "code": "C", "retryable": True, "details": {"a": 1},
    }  # fmt: skip


@pytest.mark.parametrize(
    "error",
    [
        JobFailed("m", code="C", retryable=True, details={"a": 1}, job_id="j"),
        errors.JobTimedOut("m", code="TIMEOUT", job_id="j"),
        errors.BudgetExhausted("m", code="BUDGET_EXHAUSTED", job_id="j"),
        errors.JobLost("m", job_id="j"),
        errors.ResultIncomplete("m", job_id="j"),
        errors.PermissionDenied("m", code="PERMISSION_DENIED"),
        errors.RequestTimeout("m"),
        errors.ClientClosed("m"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_outcome_gives_the_error_back(error: errors.ArcpError) -> None:
    found = outcome("j", "error", 1.0, error=error).to_error()
    assert type(found) is type(error)
    assert str(found) == str(error)
    assert vars(found) == vars(error)


@pytest.mark.parametrize("name", ["Later", "ValueError", "errors", "job_error", "Any", None, 3])
def test_an_error_of_another_kind_is_a_failed_job(name: Any) -> None:
    found = OutcomeLine(job_id="j", error={"type": name, "message": "m", "code": 7}).to_error()
    assert type(found) is JobFailed
    assert (found.code, found.message, found.job_id) == ("INTERNAL_ERROR", "m", "j")
    assert OutcomeLine(job_id="j").to_error() is None
