"""Events as lines: one line each, and nothing that a terminal obeys."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from arcp_client import events
from arcp_client.cli.view.render import event_text, local
from arcp_client.cli.view.terminal import as_json, harmless
from tests.nesting import near_the_limit, nested, too_deep

SAMPLES = [
    (events.Log(message="reading"), "reading"),
    (events.Log(message="careful", level="warn"), "warn: careful"),
    (events.Thought(text="hm"), "hm"),
    (events.ToolCall(tool="search", args={"q": 1}), '→ search {"q": 1}'),
    (events.ToolResult(result=[1]), "← [1]"),
    (events.ToolResult(error={"code": "X"}), '← {"code": "X"}'),
    (events.Status(phase="planning", message="soon"), "planning: soon"),
    (events.Metric(name="tokens", value=1234, unit="t"), "tokens = 1,234 t"),
    (events.ArtifactRef(uri="file:x", content_type="text/plain", byte_size=3), "made file:x"),
    (events.Delegate(agent="other", child_job_id="job_2"), "delegates to other as job_2"),
    (events.Progress(current=6, total=12), "━━━━━━┄┄┄┄┄┄ 6/12"),
    (events.Progress(current=99, total=12), "━━━━━━━━━━━━ 99/12"),
    (events.Progress(current=3), "3"),
    (events.ResultChunk(chunk_seq=2, data="abc", more=True), 'chunk 2 "abc"'),
    (events.ResultChunk(data="AAAA", encoding="base64", more=False), "the last (3 bytes)"),
    (events.ResultChunk(data="?", encoding="base64"), "(1 byte)"),
    (events.Question(text="Deploy?", question_id="q_1"), "? Deploy?"),
    (events.Answered(value="yes", by="alice"), '! alice answered "yes"'),
    (events.Expired(defaulted=True, value="no"), 'not answered in time: "no" holds'),
    (events.Expired(), "not answered in time"),
    (events.Withdrawn(reason="agent"), "the question needs no answer any more (agent)"),
    (events.Sent(by="alice", mode="steer", value="stop"), "✉ alice (steer): stop"),
    (events.Consumed(at=2), "✉ the agent took message 2"),
    (events.Returned(message_id="m"), "✉ the agent did not take the message m"),
    (events.Completed(summary="all good"), "✓ done: all good"),
    (events.Failed(code="X", message="why"), "✗ failed X: why"),
    (events.Failed(code="TIMEOUT", status="timed_out"), "✗ timed out TIMEOUT"),
    (events.Gap(first=3, last=9), "! gap: events 3–9 (lost)"),
    (events.Gap(first=3, reason="unknown_end"), "! gap: events 3–? (unknown_end)"),
    (events.Unknown(kind="x-acme.scored", body={"a": 1}), 'x-acme.scored {"a": 1}'),
]


@pytest.mark.parametrize(("event", "said"), SAMPLES, ids=lambda v: type(v).__name__)
def test_what_an_event_says(event: events.Event, said: str) -> None:
    assert said in event_text(event).plain


def test_every_kind_has_a_line_of_its_own() -> None:
    assert {type(event) for event, _ in SAMPLES} == {*events.KINDS.values(), events.Unknown}


HOSTILE = "\x1b[2J\x1b]0;owned\x07\r\nnext\u202eevil\x9b31m\x7f\u061c\u2028\u2029\ud800"
OBEYED = frozenset("\x1b\x07\r\n\u202e\x9b\x7f\u061c\u2028\u2029\ud800")


@pytest.mark.parametrize(
    "event",
    [
        events.Log(message=HOSTILE),
        events.Thought(text=HOSTILE),
        events.ToolCall(tool=HOSTILE, args=HOSTILE),
        events.ToolResult(result=HOSTILE),
        events.ToolResult(error={HOSTILE: HOSTILE}),
        events.Status(phase=HOSTILE, message=HOSTILE),
        events.Metric(name=HOSTILE, unit=HOSTILE),
        events.ArtifactRef(uri=HOSTILE, content_type=HOSTILE),
        events.Delegate(agent=HOSTILE, child_job_id=HOSTILE),
        events.Progress(current=1, total=2, units=HOSTILE, message=HOSTILE),
        events.ResultChunk(data=HOSTILE),
        events.Completed(summary=HOSTILE),
        events.Failed(code=HOSTILE, message=HOSTILE),
        events.Unknown(kind=HOSTILE, body=HOSTILE),
    ],
    ids=lambda event: type(event).__name__,
)
def test_control_characters_are_shown_not_obeyed(event: events.Event) -> None:
    text = event_text(event).plain
    assert not set(text) & OBEYED
    text.encode()


def test_a_megabyte_is_cut() -> None:
    text = event_text(events.Log(message="x" * 1_000_000)).plain
    assert len(text) < 700
    assert "999,400 more characters" in text


def test_line_ends_can_be_kept() -> None:
    assert harmless("a\r\nb\tc\x1b", lines=True) == "a\nb\tc␛"


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_json_holds_nothing_that_a_terminal_obeys(
    encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(io.BytesIO(), encoding=encoding))
    text = as_json({HOSTILE: [HOSTILE, "ä"]})
    assert not set(text) & OBEYED
    assert json.loads(text) == {HOSTILE: [HOSTILE, "ä"]}


@pytest.fixture(params=["UTC", "America/New_York", "Asia/Tokyo"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A clock on the wall."""
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("zone")
@pytest.mark.parametrize(
    "moment",
    [datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)],
)
def test_the_ends_of_the_calendar_have_a_time_everywhere(moment: datetime) -> None:
    assert len(local(moment, "%m-%d %H:%M:%S")) == len("01-01 00:00:00")


@pytest.mark.parametrize("depth", [*range(900, 1010, 5), 100_000])
def test_what_is_nested_too_deeply_is_said_to_be(depth: int) -> None:
    is_shown(depth)


def test_what_is_nested_nearly_too_deeply_for_this_python_is_shown() -> None:
    for depth in near_the_limit():
        is_shown(depth)


def is_shown(depth: int) -> None:
    args = nested(depth, [])
    assert "→ t" in event_text(events.ToolCall(tool="t", args=args)).plain
    told = json.loads(as_json({"a": args, "b": 1}, cut=True))
    assert told["b"] == 1
    if depth >= too_deep():
        assert "(nested too deeply)" in event_text(events.Unknown(kind="x", body=args)).plain
        with pytest.raises(RecursionError):
            as_json(args)
