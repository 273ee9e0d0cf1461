"""A job in a line says how it is doing, with exact numbers, and why it needs attention."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcp_client import JobSummary, Lease, LeaseConstraints, Verdict, events
from arcp_client import _digits as digits
from arcp_client.events import Event
from arcp_client.projection import (
    ENDED,
    JobProjection,
    JobRow,
    Reason,
    reason_of,
    verdict_of,
)

JOB = "job_1"
START = datetime(2026, 5, 13, 19, 42, tzinfo=UTC)


def at(seconds: float) -> dict[str, Any]:
    return {"job_id": JOB, "ts": START + timedelta(seconds=seconds)}


def later(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def seen(*told: Event, **known: Any) -> JobProjection:
    projection = JobProjection(JOB, agent="coder@1.2.0", status="running", **known)
    for event in told:
        projection.apply(event)
    return projection


def row(*told: Event, now: float = 5, **options: Any) -> JobRow:
    return JobRow.of(seen(*told, **options.pop("known", {})), later(now), **options)


def framed(event: Event, **numbers: str) -> Event:
    """The event, as decoded from a frame with these digits."""
    fields = {**event.to_dict(), **{name: digits.Digits(text) for name, text in numbers.items()}}
    return digits.with_fields(event, fields)


# ------------------------------------------------------------------------- what it shows


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (events.Log(**at(1), message="reads a.py"), "reads a.py"),
        (events.Log(**at(1), level="error", message="no disk"), "error: no disk"),
        (events.Thought(**at(1), text="why?"), "thinks: why?"),
        (events.ToolCall(**at(1), tool="fs.read", args={"p": 1}), 'calls fs.read {"p": 1}'),
        (events.Status(**at(1), phase="test", message="unit"), "test: unit"),
        (events.Progress(**at(1), current=3, total=9, units="files"), "3 of 9 files"),
        (events.Progress(**at(1), current=3, message="a.py"), "a.py"),
        (events.Metric(**at(1), name="tokens.out", value=7, unit="tokens"), "tokens.out 7 tokens"),
        (events.ArtifactRef(**at(1), uri="file:///a.pdf"), "made file:///a.pdf"),
        (events.Delegate(**at(1), agent="mason", child_job_id="j2"), "delegated to mason"),
        (events.ResultChunk(**at(1), data="x"), "sends its result"),
        (events.Completed(**at(1), summary="3 files"), "finished: 3 files"),
        (events.Failed(**at(1), code="BOOM", message="it broke"), "BOOM: it broke"),
        (events.Unknown(**at(1), kind="x-vendor.acme.scored"), "x-vendor.acme.scored"),
    ],
)
def test_the_last_event_is_told_in_words_with_its_time(event: Event, words: str) -> None:
    made = row(event)
    assert (made.last, made.last_at) == (words, later(1))


def test_the_result_of_a_tool_names_the_tool() -> None:
    call = events.ToolCall(**at(1), tool="fs.read", call_id="c")
    assert row(call, events.ToolResult(**at(2), call_id="c", result=1)).last == "fs.read returned"
    error = {"code": "NO", "message": "not there"}
    failed = events.ToolResult(**at(2), call_id="c", error=error)
    assert row(call, failed).last == "fs.read failed: not there"


def test_what_the_runtime_adds_to_a_cost_is_not_the_last_event() -> None:
    cost = events.Metric(**at(1), name="cost.inference", value=0.5, unit="USD")
    left = events.Metric(**at(2), name="cost.budget.remaining", value=4.5, unit="USD")
    assert row(cost, left).last == "cost.inference 0.5 USD"
    log = events.Log(**at(0), message="reading")
    tokens = events.Metric(**at(2), name="tokens.output", value=9, unit="tokens")
    found = row(log, cost, tokens)
    assert (found.last, found.last_at, found.tokens) == ("reading", log.ts, 9)


def test_the_label_is_that_of_the_input_else_the_first_status() -> None:
    told = [events.Status(**at(n), phase="p", message=f"status {n}") for n in (1, 2)]
    assert row(*told).label == "status 1"
    assert row(*told, label="nightly").label == "nightly"
    assert row(events.Status(**at(1), phase="reading")).label == "reading"
    assert row().label is None


def test_progress_has_the_time_that_is_left_at_its_speed() -> None:
    told = [events.Progress(**at(10 * n), current=n, total=10, units="files") for n in range(5)]
    made = row(*told, now=40)
    assert (made.current, made.total, made.units, made.done) == (4, 10, "files", 0.4)
    assert made.seconds_left(later(40)) == pytest.approx(60)
    assert made.seconds_left(later(70)) == pytest.approx(30)
    assert made.seconds_left(later(1000)) == 0


def test_progress_that_goes_back_begins_a_new_measurement() -> None:
    told = [(0, 0), (8, 4), (0, 10), (1, 20)]
    made = row(*(events.Progress(**at(s), current=n, total=10) for n, s in told), now=20)
    assert made.seconds_left(later(20)) == pytest.approx(90)


def test_the_duration_of_an_ended_job_stands_still() -> None:
    created = JobSummary(job_id=JOB, created_at=later(-10))
    running = row(events.Log(**at(1)), summary=created)
    assert running.seconds(later(20)) == 30
    ended = row(events.Log(**at(1)), events.Completed(**at(5)), summary=created)
    assert (ended.seconds(later(999)), ended.ended_at, ended.ended) == (15, later(5), True)


def test_cost_tokens_and_budget_are_exact() -> None:
    told = [events.Metric(**at(n), name="cost.llm", value=0.1, unit="USD") for n in range(3)] + [
        events.Metric(**at(4), name="gen_ai.output_tokens", value=2**60, unit=None)
    ]
    made = row(*told, known={"lease": Lease({"cost.budget": ["USD:1.00"]})})
    [meter] = made.meters
    assert (meter.spent, meter.left) == (Decimal("0.3"), Decimal("0.70"))
    assert made.tokens is None, "more than any plausible number is left out"
    assert row(events.Metric(**at(1), name="t", value=1203, unit="tokens")).tokens == 1203


@given(st.from_regex(r"\A[1-9][0-9]{0,14}(\.[0-9]{1,18})\Z"))
def test_digits_that_a_float_would_change_are_kept(text: str) -> None:
    told = framed(events.Progress(**at(1), current=float(text), total=1e15), current=text)
    shown = json.loads(digits.dumps(row(told).to_dict()), parse_float=str)
    assert shown["progress"]["current"] == text
    assert row(told).last == f"{text} of 1000000000000000.0"
    metric = events.Metric(**at(1), name="cost.x", value=float(text), unit="EUR")
    [meter] = row(framed(metric, value=text)).meters
    assert meter.spent == Decimal(text)


# ------------------------------------------------------------------------- why it needs attention


def why(*told: Event, now: float = 5, **options: Any) -> Reason | None:
    known = options.pop("known", {})
    return reason_of(seen(*told, **known), later(now), **options)


def code(*told: Event, **options: Any) -> str | None:
    found = why(*told, **options)
    return None if found is None else found.code


FIVE = {"lease": Lease({"cost.budget": ["USD:5.00"]})}


def spend(value: float, seconds: float) -> events.Metric:
    return events.Metric(**at(seconds), name="cost.llm", value=value, unit="USD")


def test_a_job_that_works_needs_no_look() -> None:
    assert why(events.Log(**at(1))) is None
    assert why(events.Completed(**at(1))) is None
    assert why(events.Failed(**at(1), status="cancelled", code="CANCELLED")) is None


def test_a_long_tool_call_is_noted_and_is_never_an_alarm() -> None:
    call = events.ToolCall(**at(0), tool="make", call_id="c")
    assert why(call, now=5) is None
    found = why(call, now=40)
    assert found == Reason("tool", "note", "waiting for make", since=START)
    assert found.words(later(40)) == "waiting for make for 40 s"
    hours = why(call, now=50_000)
    assert hours is not None
    assert (hours.code, hours.level) == ("tool", "note")


def test_a_job_that_sends_nothing_for_a_minute_is_silent() -> None:
    told = events.Log(**at(0))
    assert why(told, now=59) is None
    found = why(told, now=120)
    assert found is not None
    assert (found.code, found.level, found.words(later(120))) == (
        "silent",
        "warn",
        "silent for 2 min",
    )


def test_a_budget_that_ends_soon_is_told_with_its_time() -> None:
    assert code(spend(0.1, 0), spend(0.1, 60), known=FIVE, now=60) is None
    assert code(spend(1, 0), spend(1, 10), known=FIVE, now=10) is None, "too early to tell"
    found = why(spend(2, 0), spend(2, 10), known=FIVE, now=10)
    assert found is not None
    assert (found.code, found.level) == ("budget", "alert")
    assert found.words(later(10)) == "budget in USD ends in 2 s"
    soon = why(spend(0.5, 0), spend(0.5, 50), spend(0.2, 60), known=FIVE, now=60)
    assert soon is not None
    assert (soon.level, soon.words(later(60))) == ("warn", "budget in USD ends in 5 min")
    assert code(spend(5, 1), known=FIVE) == "spent"
    assert code(spend(4.8, 1), events.Log(**at(1990)), known=FIVE, now=2000) == "low"


def test_a_lease_that_ends_soon_is_told_with_its_time() -> None:
    known = {"constraints": LeaseConstraints(expires_at=later(200))}
    found = why(events.Log(**at(0)), known=known)
    assert found is not None
    assert found.words(later(5)) == "lease ends in 3 min"
    assert code(events.Log(**at(0)), known=known, now=201) == "lease"


def test_failures_and_lost_jobs_come_first() -> None:
    failed = events.Failed(**at(1), status="error", code="BOOM", message="it broke")
    found = why(failed)
    assert found is not None
    assert (found.level, found.text) == ("alert", "BOOM: it broke")
    assert code(events.Log(**at(1)), status="lost") == "lost"
    assert code(events.Log(**at(1)), status="timed_out") == "failed"


def test_a_job_that_has_not_begun_says_since_when_it_waits() -> None:
    assert code(status="pending", created_at=START, now=10) is None
    assert code(status="pending", created_at=START, now=20) == "queued"


def test_a_question_is_a_reason_until_it_is_answered() -> None:
    asked = events.Question(**at(1), question_id="q", text="Drop the table?")
    found = why(asked, now=31)
    assert found is not None
    assert (found.code, found.level) == ("asks", "alert")
    assert found.words(later(31)) == "waiting for you: Drop the table? for 30 s"
    assert row(asked).last == "asks: Drop the table?"
    for end in (
        events.Answered(**at(2), question_id="q", by="ann"),
        events.Expired(**at(2), question_id="q"),
        events.Withdrawn(**at(2), question_id="q"),
    ):
        assert why(asked, end) is None
    other = events.Answered(**at(2), question_id="another")
    assert code(asked, other) == "asks"


def test_a_job_that_asks_a_person_says_so_before_anything_else() -> None:
    asked = events.Question(**at(1), question_id="q", text="Drop the table?")
    assert code(spend(5, 1), asked, known=FIVE) == "asks"
    assert code(asked, events.Completed(**at(1))) is None


@pytest.mark.parametrize(
    ("verdict", "reason"),
    [
        (Verdict("slowed_by_you", "slowed by you", START), ("slowed", "warn", "slowed by you")),
        (Verdict("link_down", "no link", START), ("link", "note", "no link")),
        (
            Verdict("waiting_for_job", "waiting for mason", START),
            ("child", "note", "waiting for mason"),
        ),
        (Verdict("working", "working", START), None),
    ],
)
def test_what_a_client_knows_of_a_job_is_a_reason_too(
    verdict: Verdict, reason: tuple[str, str, str] | None
) -> None:
    made = row(events.Log(**at(1)), now=100, verdict=verdict)
    assert made.verdict == verdict
    found = made.reason
    assert (found and (found.code, found.level, found.text)) == reason


def test_the_verdict_of_a_client_does_not_count_once_the_job_has_ended() -> None:
    verdict = Verdict("silent", "silent", START)
    made = row(events.Completed(**at(1)), verdict=verdict)
    assert (made.verdict, made.reason) == (Verdict("done", "done", later(1)), None)
    assert row(events.Log(**at(1)), status="lost", verdict=verdict).to_dict()["verdict"] == {
        "kind": "agent_dead",
        "text": "the runtime no longer knows it",
        "since": "2026-05-13T19:42:01+00:00",
    }


def test_the_events_of_a_transcript_say_what_a_job_was_doing() -> None:
    call = events.ToolCall(**at(1), tool="make", call_id="c")
    back = events.ToolResult(**at(9), call_id="c")
    asked = events.Question(**at(10), question_id="q", text="Go on?")
    told = [call, back, asked]
    found = [verdict_of(seen(*told[:count]), later(20), heartbeat=5) for count in range(1, 4)]
    assert found == [
        Verdict("waiting_for_tool", "waiting for make", later(1)),
        Verdict("silent", "silent", later(9), 2),
        Verdict("waiting_for_you", "waiting for you: Go on?", later(10)),
    ]
    assert found[1].words(later(20)) == "silent for 11 s (2 heartbeats)"
    assert verdict_of(seen(call, back), later(12)) == Verdict("working", "working", later(9))


NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70), st.floats(), st.just(True), st.floats(0, 100, allow_nan=False)
)
TIMES = st.one_of(st.none(), st.integers(0, 10_000).map(later))
TEXT = st.text(max_size=400)


def base(**fields: Any) -> dict[str, Any]:
    return {"job_id": st.just(JOB), "ts": TIMES, **fields}


ANY = st.one_of(
    st.builds(events.Log, **base(message=TEXT, level=TEXT)),
    st.builds(events.Thought, **base(text=TEXT)),
    st.builds(events.Status, **base(phase=TEXT, message=st.none() | TEXT)),
    st.builds(
        events.Progress, **base(current=NUMBERS, total=st.none() | NUMBERS, units=st.none() | TEXT)
    ),
    st.builds(
        events.Metric,
        **base(
            name=st.sampled_from(["cost.x", "tokens", "cost.budget.remaining"]),
            value=NUMBERS,
            unit=st.sampled_from([None, "USD", "tokens"]),
        ),
    ),
    st.builds(events.ToolCall, **base(tool=TEXT, call_id=st.sampled_from("ab"))),
    st.builds(events.ToolResult, **base(call_id=st.sampled_from("ab"), error=st.none() | TEXT)),
    st.builds(events.Delegate, **base(agent=st.none() | TEXT)),
    st.builds(events.Unknown, **base(kind=TEXT)),
    st.builds(events.Completed, **base(summary=st.none() | TEXT)),
    st.builds(events.Failed, **base(code=TEXT, message=TEXT)),
    st.builds(events.Gap, **base()),
)


@given(st.lists(ANY, max_size=40), st.integers(0, 20_000), st.booleans())
def test_whatever_an_agent_sends_the_row_is_small_json(
    told: list[Event], now: int, bounded: bool
) -> None:
    made = row(*told, now=now, known=FIVE if bounded else {})
    text = digits.dumps(made.to_dict(), ascii=True)
    assert json.loads(text)["job_id"] == JOB
    assert len(text) < 60_000
    left = made.seconds_left(later(now))
    assert left is None or left >= 0
    assert made.done is None or 0 <= made.done <= 1
    if made.status in ENDED:
        assert made.reason is None or made.reason.code == "failed"
    if made.reason is not None:
        assert made.reason.words(later(now))
