"""A job's events become what a person wants to see of it; whatever comes, in bounded memory."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from arcp_client import Lease, LeaseConstraints, Runtime, events
from arcp_client.client import Client
from arcp_client.events import Event
from arcp_client.projection import Bar, Call, Child, Hole, JobProjection, Meter, fold
from arcp_client.runtime import JobContext

JOB = "job_1"
START = datetime(2026, 5, 13, 19, 42, tzinfo=UTC)


def at(seconds: float) -> dict[str, Any]:
    return {"job_id": JOB, "ts": START + timedelta(seconds=seconds)}


def view(*seen: Event, **known: Any) -> JobProjection:
    projection = JobProjection(JOB, **known)
    for event in seen:
        projection.apply(event)
    return projection


def cost(value: float, seconds: float = 0, unit: str = "USD") -> events.Metric:
    return events.Metric(**at(seconds), name="cost.inference", value=value, unit=unit)


def remaining(value: float, seconds: float = 0, unit: str = "USD") -> events.Metric:
    return events.Metric(**at(seconds), name="cost.budget.remaining", value=value, unit=unit)


def dollars(projection: JobProjection) -> Meter:
    [meter] = projection.meters
    assert meter.currency == "USD"
    return meter


FIVE = Lease({"cost.budget": ["USD:5.00"]})


# ------------------------------------------------------------------------- money


def test_a_budget_that_nobody_touched_is_whole_and_lasts_for_ever() -> None:
    assert view(lease=FIVE).meters == [Meter("USD", Decimal("5.00"), Decimal("5.00"))]


def test_costs_are_taken_off_exactly() -> None:
    meter = dollars(view(*[cost(0.1)] * 3, lease=FIVE))
    assert (meter.left, meter.spent) == (Decimal("4.70"), Decimal("0.3"))


def test_the_rate_is_what_was_spent_a_second_since_the_first_event() -> None:
    meter = dollars(view(cost(1, 0), cost(1, 10), lease=FIVE))
    assert meter.rate == pytest.approx(0.2)
    assert meter.seconds_left == pytest.approx(15.0)


def test_the_rate_forgets_what_is_older_than_a_minute() -> None:
    long_ago = [cost(3, 0), events.Log(**at(600)), cost(0.6, 630)]
    meter = dollars(view(*long_ago, lease=FIVE))
    assert meter.rate == pytest.approx(0.01)
    assert meter.spent == Decimal("3.6")


def test_a_silent_job_burns_less_and_less_and_then_nothing() -> None:
    projection = view(cost(1, 0), cost(1, 10), lease=FIVE)
    later = [
        projection.meters_at(START + timedelta(seconds=seconds))[0].rate for seconds in (10, 40, 90)
    ]
    assert later == sorted(later, reverse=True)
    assert later[-1] == 0.0


def test_a_cost_in_the_first_moment_is_a_cost_of_ten_seconds() -> None:
    assert dollars(view(cost(1, 0), lease=FIVE)).rate == 0.1


def test_the_report_that_follows_a_cost_does_not_count_it_again() -> None:
    meter = dollars(view(cost(1, 0), remaining(4, 0), cost(1, 10), remaining(3, 10), lease=FIVE))
    assert (meter.left, meter.spent) == (Decimal(3), Decimal(2))
    assert meter.rate == pytest.approx(0.2)


def test_what_children_spend_is_seen_in_the_reports() -> None:
    meter = dollars(view(remaining(5, 0), remaining(4, 10), lease=FIVE))
    assert (meter.left, meter.spent) == (Decimal(4), Decimal(1))
    assert meter.rate == pytest.approx(0.1)


def test_what_was_spent_before_the_first_report_burns_nothing_now() -> None:
    meter = dollars(view(remaining(1, 0), events.Log(**at(10)), lease=FIVE))
    assert (meter.left, meter.spent, meter.rate) == (Decimal(1), Decimal(4), 0.0)


def test_what_was_spent_in_a_gap_burns_nothing_now() -> None:
    gap = events.Gap(job_id=JOB, first=2, last=900)
    meter = dollars(view(remaining(5, 0), gap, remaining(1, 10), lease=FIVE))
    assert (meter.left, meter.rate) == (Decimal(1), 0.0)


def test_a_spent_budget_lasts_no_longer() -> None:
    meter = dollars(view(cost(6), lease=FIVE))
    assert (meter.left, meter.seconds_left) == (Decimal("-1.00"), 0.0)


def test_a_currency_that_the_lease_does_not_bound_is_counted_alone() -> None:
    assert view(cost(2, unit="EUR")).meters == [
        Meter("EUR", None, None, Decimal(2), rate=0.2, seconds_left=None)
    ]


def test_metrics_that_are_no_costs_cost_nothing() -> None:
    other = [
        events.Metric(**at(0), name="tokens", value=9, unit="USD"),
        events.Metric(**at(0), name="cost.inference", value=9),
        cost(-4),
        cost(float("nan")),
        cost(float("inf")),
        cost(10**30),
    ]
    assert dollars(view(*other, lease=FIVE)).left == Decimal("5.00")


def test_a_grant_that_is_no_amount_is_passed_over() -> None:
    assert view(lease=Lease({"cost.budget": ["much", "EUR:1"]})).meters == [
        Meter("EUR", Decimal(1), Decimal(1))
    ]


# ------------------------------------------------------------------------- the other parts


def test_each_unit_has_a_bar_of_its_own() -> None:
    projection = view(
        events.Progress(**at(0), current=1, total=4, units="files"),
        events.Progress(**at(1), current=10, units="lines"),
        events.Progress(**at(2), current=3, total=4, units="files", message="nearly"),
    )
    assert projection.progress == [Bar(3, 4, "files", "nearly"), Bar(10, None, "lines")]
    assert [bar.share for bar in projection.progress] == [0.75, None]


def test_a_share_is_never_outside_of_its_bar() -> None:
    assert (Bar(9, 4).share, Bar(-1, 4).share, Bar(1, 0).share) == (1.0, 0.0, None)


def test_calls_and_results_are_paired() -> None:
    projection = view(
        events.ToolCall(**at(0), tool="grep", args={"for": "x"}, call_id="a"),
        events.ToolCall(**at(1), tool="sed", call_id="b"),
        events.ToolCall(**at(2), tool="awk", call_id="c"),
        events.ToolResult(**at(3), call_id="a", result=[1]),
        events.ToolResult(**at(4), call_id="c", error={"code": "E"}),
        events.ToolResult(**at(5), call_id="never called", result=1),
    )
    first, second, third = projection.calls
    assert first == Call("a", "grep", '{"for": "x"}', START, START + timedelta(seconds=3), "[1]")
    assert (second.running, second.outcome) == (True, None)
    assert (third.failed, third.outcome) == (True, '{"code": "E"}')
    assert projection.running == [second]


def test_a_result_of_nothing_ends_its_call_too() -> None:
    projection = view(
        events.ToolCall(**at(0), tool="touch", call_id="a"), events.ToolResult(**at(1), call_id="a")
    )
    assert projection.running == []


def test_no_call_runs_once_the_job_has_ended() -> None:
    projection = view(
        events.ToolCall(**at(0), tool="sleep", call_id="a"),
        events.Failed(**at(1), status="cancelled", code="CANCELLED", message="by you"),
    )
    assert projection.running == []
    assert projection.error is not None
    assert (projection.status, projection.error.code) == ("cancelled", "CANCELLED")


def test_running_calls_are_kept_longer_than_finished_ones() -> None:
    projection = view(events.ToolCall(**at(0), tool="long", call_id="long"))
    for n in range(3 * fold.CALLS):
        projection.apply(events.ToolCall(**at(n), tool="short", call_id=str(n)))
        projection.apply(events.ToolResult(**at(n), call_id=str(n), result=n))
    assert len(projection.calls) == fold.CALLS
    assert [call.tool for call in projection.running] == ["long"]


def test_phases_children_chunks_and_gaps() -> None:
    projection = view(
        events.Status(**at(0), phase="reading", message="slowly"),
        events.Delegate(**at(1), child_job_id="job_2", agent="b"),
        events.Delegate(**at(1), agent="nobody took it"),
        events.ResultChunk(**at(2), data="äb"),
        events.ResultChunk(**at(2), data="AAECAw==", encoding="base64"),
        events.Gap(first=4, last=None, reason="unknown_end"),
        events.Completed(**at(9), summary="well"),
    )
    assert (projection.phase, projection.message) == ("reading", "slowly")
    assert projection.children == [Child("job_2", "b")]
    assert (projection.chunks, projection.streamed) == (2, 7)
    assert projection.gaps == [Hole(4, None, "unknown_end")]
    assert (projection.status, projection.summary) == ("success", "well")
    assert (projection.began_at, projection.last_at) == (START, START + timedelta(seconds=9))


def test_events_of_other_jobs_are_passed_over() -> None:
    projection = view(events.Log(job_id="job_2"), events.Status(phase="of the session"))
    assert (projection.events, projection.status) == (0, "pending")


def test_what_a_job_is_told_of_its_end_first_counts() -> None:
    projection = view(
        events.Failed(**at(0), code="TIMEOUT", status="timed_out"), events.Completed(**at(1))
    )
    assert projection.status == "timed_out"


# ------------------------------------------------------------------------- whatever comes

WORDS = st.text(max_size=3) | st.sampled_from(["USD", "EUR", "cost.a", "cost.budget.remaining"])
NUMBERS = st.integers() | st.floats() | st.integers(0, 20)
VALUES = st.recursive(
    st.none() | NUMBERS | WORDS | st.text(min_size=300, max_size=301),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=8,
)
MOMENTS = st.none() | st.datetimes(timezones=st.just(UTC)) | st.datetimes()


def of(cls: type[Event], **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Event]:
    shared = {"job_id": st.sampled_from([JOB, JOB, JOB, "other", None]), "ts": MOMENTS}
    return st.builds(cls, **shared, **fields)


EVENTS = st.one_of(
    of(events.Log, message=WORDS),
    of(events.Status, phase=WORDS, message=st.none() | WORDS),
    of(events.Metric, name=WORDS, value=NUMBERS, unit=st.none() | WORDS),
    of(events.Progress, current=NUMBERS, total=st.none() | NUMBERS, units=st.none() | WORDS),
    of(events.ToolCall, tool=WORDS, args=VALUES, call_id=WORDS),
    of(events.ToolResult, call_id=WORDS, result=VALUES, error=st.none() | VALUES),
    of(events.Delegate, child_job_id=st.none() | WORDS, agent=st.none() | WORDS),
    of(events.ResultChunk, data=WORDS, encoding=st.sampled_from(["utf8", "base64", "?"])),
    of(events.Completed, summary=st.none() | WORDS),
    of(events.Failed, status=st.sampled_from(["error", "cancelled", "timed_out"]), code=WORDS),
    of(events.Gap, first=st.integers(), last=st.none() | st.integers()),
    of(events.Unknown, kind=WORDS, body=VALUES),
)
DEEP: Any = []
for _ in range(100_000):
    DEEP = [DEEP]


@given(st.lists(EVENTS, max_size=40))
@example([events.ToolCall(job_id=JOB, args=DEEP)])
@example([events.ToolCall(job_id=JOB, args={1j: object()})])
@example([events.ToolCall(job_id=JOB, args=["a\ud800b"])])
@example([events.Metric(job_id=JOB, name="cost.a", unit="USD", value=5e-324)] * 2)
def test_any_events_give_a_picture_that_json_can_hold(seen: list[Event]) -> None:
    projection = view(*seen, lease=FIVE)
    told = json.loads(json.dumps(projection.to_dict(), allow_nan=False))
    mine = [
        event
        for event in seen
        if event.job_id == JOB or (event.job_id is None and isinstance(event, events.Gap))
    ]
    assert told["events"] == sum(told["counts"].values()) == len(mine)
    ends = [event.status if isinstance(event, events.Failed) else "success"
            for event in mine if event.terminal]  # fmt: skip
    assert told["status"] == (ends[0] if ends else told["status"])
    assert projection.ended == bool(ends)


MESSAGES = st.one_of(
    of(events.Log, message=WORDS, level=st.sampled_from(["info", "error"])),
    of(events.Thought, text=WORDS),
    of(events.Log, message=WORDS, kind=WORDS),
)


@given(st.lists(st.lists(MESSAGES | MESSAGES | EVENTS, max_size=20), max_size=5))
@example([[events.Log(job_id=JOB, kind=f"k{n}") for n in range(fold.MOST_KINDS + 3)]])
@example([[events.Log(**at(1), message="a"), events.Log(job_id=JOB, message="b")]])
def test_events_that_are_applied_together_have_the_effect_of_each_alone(
    batches: list[list[Event]],
) -> None:
    one_by_one = view(*[event for batch in batches for event in batch], lease=FIVE)
    together = view(lease=FIVE)
    for batch in batches:
        together.apply_all(batch)
    assert str(together.to_dict()) == str(one_by_one.to_dict()), "NaN is not equal to itself"
    for name in ("words", "at", "label", "question", "tokens", "due_at"):
        assert getattr(together.activity, name) == getattr(one_by_one.activity, name), name


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 50), st.integers(0, 100))))
def test_spent_and_left_always_add_up_to_what_was_granted(
    steps: list[tuple[bool, int, int]],
) -> None:
    left, seen, moment = 5000, list[Event](), 0
    for own, amount, pause in steps:
        moment += pause
        left -= amount
        if own:
            seen.append(cost(amount, moment))
        seen.append(remaining(left, moment))
    meter = dollars(view(*seen, lease=Lease({"cost.budget": ["USD:5000"]})))
    assert (meter.left, meter.spent) == (Decimal(left), Decimal(5000 - left))
    assert 0 <= meter.rate <= max(5000 - left, 0)


def test_memory_is_bounded_however_many_names_an_agent_invents() -> None:
    long = "x" * 10_000
    projection = JobProjection(JOB)
    sizes = {}
    for n in range(601):
        name = f"{n}{long}"
        for event in (
            events.ToolCall(**at(n), tool=name, args={name: name}, call_id=name),
            events.Progress(**at(n), current=n, units=name, message=name),
            events.Delegate(**at(n), child_job_id=name, agent=name),
            events.Unknown(**at(n), kind=name),
            events.Status(**at(n), phase=name, message=name),
            cost(1, n, unit=name),
            events.Gap(job_id=JOB, first=n),
        ):
            projection.apply(event)
        if n in (200, 600):
            sizes[n] = len(msgspec.json.encode(projection.to_dict()))
    assert sizes[600] <= sizes[200] * 1.1
    assert sizes[600] < 256 * 1024
    assert projection.events == 7 * 601


# ------------------------------------------------------------------------- with a client


async def test_of_a_job_and_of_a_view_of_it() -> None:
    runtime = Runtime()

    @runtime.agent("spender")
    async def spender(input: Any, job: JobContext) -> None:
        await job.metric("cost.inference", 1, "USD")
        child = await job.delegate("helper", lease={"cost.budget": ["USD:2"]})
        await child.result()

    @runtime.agent("helper")
    async def helper(input: Any, job: JobContext) -> None:
        await job.metric("cost.inference", 2, "USD")

    async with Client(runtime) as client:
        lease = {"cost.budget": ["USD:5"], "agent.delegate": ["*"]}
        job = await client.submit("spender", lease=lease)
        mine = JobProjection.of(job)
        assert mine.lease == Lease({"cost.budget": ("USD:5",), "agent.delegate": ("*",)})
        async for event in job:
            mine.apply(event)
        late = await client.watch(job.id, history=True)
        theirs = JobProjection.of(late)
        async for event in late:
            theirs.apply(event)
    for projection in (mine, theirs):
        meter = dollars(projection)
        assert (meter.granted, meter.left, meter.spent) == (Decimal(5), Decimal(2), Decimal(3))
        assert [child.agent for child in projection.children] == ["helper"]
        assert projection.status == "success"


def test_what_becomes_known_later_is_taken_over() -> None:
    projection = view(cost(1))
    projection._grant(FIVE, LeaseConstraints(expires_at=START), {})
    assert dollars(projection).left == Decimal("4.00")
    assert projection.expires_at == START
