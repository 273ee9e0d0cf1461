"""The live view: each fact in its row, whatever the size, and nothing that moves the cursor."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.text import Text

from arcp_client import Event, Lease, LeaseConstraints, events
from arcp_client.cli.view.job_tree import MOST, JobTree
from arcp_client.cli.view.panel import Frame, panel, summary
from arcp_client.projection import JobProjection

JOB = "job_1"
START = datetime(2026, 5, 13, 19, 42, tzinfo=UTC)
FIVE = Lease({"cost.budget": ["USD:5.00"]})


def at(seconds: float, job_id: str = JOB) -> dict[str, Any]:
    return {"job_id": job_id, "ts": START + timedelta(seconds=seconds)}


def tree(*seen: Event, **known: Any) -> JobTree:
    made = JobTree(JobProjection(JOB, agent="a@1.0.0", **known))
    for event in seen:
        made.apply(event)
    return made


def drawn(of: JobTree, *, width: int = 79, height: int = 24, at: float = 0, link: str = "") -> str:
    frame = Frame(width, height, at, START + timedelta(seconds=at), link)
    return "\n".join(line.plain for line in panel(of, frame))


def cost(value: float, seconds: float) -> events.Metric:
    return events.Metric(**at(seconds), name="cost.model", value=value, unit="USD")


def test_the_first_line_says_what_runs_and_for_how_long() -> None:
    status = events.Status(**at(0), phase="reading", message="slowly")
    assert re.fullmatch(r"● a@1\.0\.0  job_1  reading: slowly +45 s", drawn(tree(status), at=45))


def test_the_first_line_says_that_a_job_waits_for_a_person_or_is_silent() -> None:
    status = events.Status(**at(0), phase="reading")
    assert "  reading  silent for 1 min  " in drawn(tree(status), at=75)
    question = events.Question(**at(5), question_id="q", text="Go on?")
    assert "  waiting for you: Go on? for 40 s  " in drawn(tree(status, question), at=45)
    child = events.Delegate(**at(5), child_job_id="job_2", agent="helper")
    helper = events.Log(**{**at(6), "job_id": "job_2"}, message="I help")
    assert "waiting for you: Go on?" in drawn(tree(status, question, child, helper), at=45)
    call = events.ToolCall(**at(5), tool="make", call_id="c")
    assert "silent" not in drawn(tree(status, call), at=7200)


def test_a_lost_link_is_said_with_more_than_a_colour() -> None:
    seen = drawn(tree(), link="reconnecting in 3 s, attempt 2")
    assert seen.startswith("○ ")
    assert "reconnecting in 3 s, attempt 2" in seen


def test_gaps_are_counted() -> None:
    assert "! 1 gap " in drawn(tree(events.Gap(first=1)))


def test_a_budget_has_a_gauge_a_rate_and_a_time_that_is_left() -> None:
    seen = drawn(tree(cost(1, 0), cost(0.5, 30), lease=FIVE), at=30)
    assert re.search(r"USD +━+┄+ 3\.50 of 5\.00 left · 3\.00/min · 1:10 left", seen)


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        ([], "5.00 of 5.00 left"),
        ([cost(6, 0)], "-1.00 of 5.00 left · 36.00/min · spent"),
        ([cost(0.0001, 0), events.Log(**at(50))], "4.9999 of 5.00 left · 0.00012/min · 28 days"),
    ],
)
def test_budgets_that_are_whole_spent_and_hardly_touched(seen: list[Event], said: str) -> None:
    late = (seen[-1].ts - START).total_seconds() if seen and seen[-1].ts else 0
    assert said in drawn(tree(*seen, lease=FIVE), at=late, width=99)


def test_costs_without_a_budget_are_added_up() -> None:
    assert "2.00 spent" in drawn(tree(cost(2.00, 0)))


@pytest.mark.parametrize(("late", "said"), [(0, "1:40 left"), (95, "5 s left"), (101, "expired")])
def test_a_lease_runs_out(late: float, said: str) -> None:
    until = LeaseConstraints(expires_at=START + timedelta(seconds=100))
    seen = drawn(tree(events.Log(**at(0)), constraints=until), at=late)
    assert re.search(rf"lease .*{said}", seen)


def test_children_have_rows_of_their_own() -> None:
    seen = drawn(
        tree(
            events.Delegate(**at(0), child_job_id="job_2", agent="helper@2"),
            events.Progress(**at(0, "job_2"), current=1, total=2, units="pages"),
            events.Log(**at(0, "job_3")),
            events.Failed(**at(1, "job_3"), status="cancelled"),
        )
    )
    assert re.search(r"└ helper +━+┄+ 1/2 pages", seen)
    assert re.search(r"└ job_3 +✗ cancelled", seen)


def test_running_calls_come_before_finished_ones() -> None:
    seen = drawn(
        tree(
            events.ToolCall(**at(0), tool="grep", args={"for": "x"}, call_id="1"),
            events.ToolResult(**at(2.5), call_id="1", result=7),
            events.ToolCall(**at(3), tool="sed", call_id="2"),
            events.ToolCall(**at(0, "job_2"), tool="awk", call_id="1"),
        ),
        height=50,
        at=10,
    )
    rows = [line.split()[:4] for line in seen.splitlines()[-3:]]
    assert rows == [
        ["→", "sed", "7", "s"],
        ["→", "awk", "10", "s"],
        ["✓", "grep", "2.5", "s"],
    ]
    assert '{"for": "x"} → 7' in seen


def test_the_end_of_a_streamed_result_is_seen() -> None:
    chunk = events.ResultChunk(**at(0), data="one\ntwo\n\nthr")
    assert "12 bytes  thr" in drawn(tree(chunk))
    assert [line.split()[-1] for line in drawn(tree(chunk), height=50).splitlines()[1:]] == [
        "one",
        "two",
        "thr",
    ]
    binary = events.ResultChunk(**at(0), data="AAEC", encoding="base64")
    assert "3 bytes" in drawn(tree(binary))


def test_what_it_came_to() -> None:
    made = tree(cost(1.5, 0), events.Log(**at(1, "job_2")), events.Completed(**at(2)), lease=FIVE)
    assert summary(made, 61).plain == (
        "2 events in 1:01 · 1 delegated job · 1.50 of 5.00 USD spent"
    )


def test_a_family_is_of_a_bounded_size() -> None:
    made = tree(*[events.Log(**at(0, f"job_{n}")) for n in range(2, 500)])
    assert len(list(made)) == MOST
    assert made.root.events == 0


HOSTILE = st.text(max_size=30) | st.sampled_from(
    ["\x1b[2J", "\x9b2J", "\r\n\t", "\u202e", "漢字" * 20, "a" * 500, "👩‍👩‍👧" * 9, "\x1b]0;x\x07"]
)
NUMBERS = st.floats(0, 1e6) | st.integers(0, 10**14)


def some(cls: type[Event], **fields: Any) -> st.SearchStrategy[Event]:
    shared = {"job_id": st.sampled_from([JOB, "job_2", "\x1b[Hjob"]), "ts": st.just(START)}
    return st.builds(cls, **shared, **fields)


EVENTS = st.one_of(
    some(events.Status, phase=HOSTILE, message=HOSTILE),
    some(events.Progress, current=NUMBERS, total=NUMBERS, units=HOSTILE, message=HOSTILE),
    some(events.ToolCall, tool=HOSTILE, args=HOSTILE, call_id=st.sampled_from("ab")),
    some(events.ToolResult, call_id=st.sampled_from("ab"), result=HOSTILE),
    some(events.Metric, name=st.just("cost.a"), value=NUMBERS, unit=HOSTILE),
    some(events.Delegate, child_job_id=st.just("job_2"), agent=HOSTILE),
    some(events.ResultChunk, data=HOSTILE, encoding=st.sampled_from(["utf8", "base64"])),
    some(events.Failed, status=st.just("error"), code=HOSTILE, message=HOSTILE),
    some(events.Gap, first=st.integers(0, 9)),
)


@given(st.lists(EVENTS, max_size=12), st.integers(1, 220), st.integers(1, 60), HOSTILE)
def test_no_line_is_too_wide_and_none_moves_the_cursor(
    seen: list[Event], width: int, height: int, agent: str
) -> None:
    made = tree(*seen, lease=FIVE)
    made.root.agent = agent
    frame = Frame(width, height, 5.0, START + timedelta(seconds=5))
    lines = panel(made, frame)
    assert 1 <= len(lines) <= max(height - 2, 1)
    for line in [*lines, summary(made, 5)]:
        assert not re.search("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", line.plain)
    for line in lines:
        assert cell_len(line.plain) <= width
        assert isinstance(line, Text)


CHILD = st.sampled_from([JOB, JOB, JOB, "job_2", "job_3"])
SEEN: st.SearchStrategy[Event] = st.one_of(
    st.builds(events.Log, job_id=CHILD, message=st.text(max_size=5)),
    st.builds(events.Progress, job_id=CHILD, current=st.integers(0, 9)),
    st.builds(events.ResultChunk, job_id=CHILD, data=st.text(max_size=5)),
    st.builds(
        events.Delegate,
        job_id=CHILD,
        child_job_id=st.sampled_from(["job_2", "job_3"]),
        agent=st.sampled_from(["", "helper"]),
    ),
    st.builds(events.Gap, job_id=st.none() | CHILD, first=st.integers(0, 9)),
)


@given(st.lists(st.lists(SEEN, max_size=10), max_size=4))
def test_events_that_are_applied_together_have_the_effect_of_each_alone(
    batches: list[list[Event]],
) -> None:
    one_by_one = tree(*[event for batch in batches for event in batch])
    together = tree()
    for batch in batches:
        together.apply_all(batch)
    assert together.tail == one_by_one.tail
    assert [each.to_dict() for each in together] == [each.to_dict() for each in one_by_one]
