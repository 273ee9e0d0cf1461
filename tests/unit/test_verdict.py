"""The rules say exactly one thing of each job, whatever is known of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import get_args

from hypothesis import example, given
from hypothesis import strategies as st

from arcp_client import Verdict
from arcp_client._verdict import RULES, Awaited, FactsOfClient, FactsOfJob, verdict_of
from arcp_client.models import JobStatus, VerdictKind, span

NOW = datetime(2026, 5, 13, 19, 42, tzinfo=UTC)

TIMES = st.integers(-600, 100_000).map(lambda seconds: NOW - timedelta(seconds=seconds))
WAITS = st.none() | st.builds(Awaited, st.text(max_size=8), st.none() | TIMES)
JOBS = st.builds(
    FactsOfJob,
    status=st.sampled_from([*get_args(JobStatus), "lost", "x-vendor.paused"]),
    since=st.none() | TIMES,
    failure=st.text(max_size=8),
    question=WAITS,
    call=WAITS,
    child=WAITS,
    heard=st.none() | TIMES,
)
CLIENTS = st.builds(
    FactsOfClient,
    down=WAITS,
    slowed=WAITS,
    heartbeat=st.none() | st.floats(0.1, 3600),
)


def expected(job: FactsOfJob, client: FactsOfClient) -> VerdictKind:
    """The table once more, as one would say it."""
    ends: dict[str, VerdictKind] = {
        "success": "done",
        "error": "failed",
        "cancelled": "cancelled",
        "timed_out": "timed_out",
        "lost": "agent_dead",
    }
    if job.status in ends:
        return ends[job.status]
    if client.down:
        return "link_down"
    if job.question:
        return "waiting_for_you"
    if client.slowed:
        return "slowed_by_you"
    if job.status == "pending":
        return "queued"
    if job.call:
        return "waiting_for_tool"
    if job.child:
        return "waiting_for_job"
    if job.heard:
        allowed = 2 * client.heartbeat if client.heartbeat else 60
        if (NOW - job.heard).total_seconds() >= allowed:
            return "silent"
    return "working"


@given(JOBS, CLIENTS)
@example(
    FactsOfJob(status="running", heard=NOW - timedelta(seconds=60)), FactsOfClient(heartbeat=30.0)
)
def test_every_state_has_exactly_one_verdict_and_the_table_says_which(
    job: FactsOfJob, client: FactsOfClient
) -> None:
    found = verdict_of(job, client, NOW)
    assert found == verdict_of(job, client, NOW)
    assert found.kind == expected(job, client)
    holding = [told for rule in RULES if (told := rule(job, client, NOW)) is not None]
    assert found == next(iter(holding), found)
    assert holding or found.kind == "working"
    assert found.kind in get_args(VerdictKind)
    assert found.text
    assert found.words(NOW)
    assert str(found) == found.text
    assert (found.heartbeats >= 2) == (found.kind == "silent" and bool(client.heartbeat))


@given(JOBS, CLIENTS, st.integers(0, 10**9))
def test_time_alone_turns_working_into_silent_and_changes_nothing_else(
    job: FactsOfJob, client: FactsOfClient, seconds: int
) -> None:
    before = verdict_of(job, client, NOW)
    after = verdict_of(job, client, NOW + timedelta(seconds=seconds))
    if after.kind != before.kind:
        assert (before.kind, after.kind) == ("working", "silent")


def test_a_reason_has_its_time_in_words() -> None:
    later = NOW + timedelta(seconds=90)
    assert Verdict("working", "working").words(NOW) == "working"
    assert Verdict("waiting_for_tool", "waiting for make", NOW).words(later) == (
        "waiting for make for 1 min"
    )
    assert Verdict("silent", "silent", NOW, 3).words(later) == "silent for 1 min (3 heartbeats)"
    assert [span(seconds) for seconds in (-5, 59, 60, 7200, 200_000)] == [
        "0 s",
        "59 s",
        "1 min",
        "2 h",
        "2 d",
    ]
