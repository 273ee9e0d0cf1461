"""What is kept of jobs that have ended: the last ones, as they ended, within bounds (S10)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcp_client._link.ended_jobs import EndedJobs, _text_of, event_of
from arcp_client.events import Completed, Event, Failed, Log
from arcp_client.models import EndedJob, OpenJob

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


def job(number: int) -> OpenJob:
    return OpenJob(f"job_{number}", "say", f"key-{number}", "00")


def kept_of(end: Event) -> Any:
    ended_jobs = EndedJobs()
    ended_jobs.keep(job(1), end, beside=0)
    (ended,) = ended_jobs.all
    return event_of(ended)


@given(value=VALUES, summary=st.none() | st.text(), seq=st.integers(1, 2**53))
def test_a_success_is_given_back_as_it_was(value: Any, summary: str | None, seq: int) -> None:
    end = Completed(
        seq=seq,
        session_id="sess_1",
        job_id="job_1",
        value=value,
        summary=summary,
        completed_at=datetime(2026, 11, 27, 12, tzinfo=UTC),
    )
    back = kept_of(end)
    assert (back.seq, back.session_id, back.job_id) == (seq, "sess_1", "job_1")
    assert (back.value, back.summary, back.completed_at) == (value, summary, end.completed_at)


@given(status=st.sampled_from(["error", "cancelled", "timed_out"]), details=VALUES)
def test_a_failure_is_given_back_as_it_was(status: Any, details: Any) -> None:
    end = Failed(
        job_id="job_1", status=status, code="X", message="no", retryable=True, details=details
    )
    back = kept_of(end)
    assert isinstance(back, Failed)
    assert (back.status, back.code, back.message) == (status, "X", "no")
    assert (back.retryable, back.details) == (True, details)


def test_what_is_no_end_is_not_kept() -> None:
    ended_jobs = EndedJobs()
    ended_jobs.keep(job(1), Log(), beside=0)
    assert ended_jobs.all == ()


def test_the_oldest_go_first() -> None:
    ended_jobs = EndedJobs(jobs=2)
    for number in range(4):
        ended_jobs.keep(job(number), Completed(), beside=0)
    assert list(ended_jobs) == ["job_2", "job_3"]
    assert "job_1" not in ended_jobs


def test_streamed_results_count_and_the_newest_always_stays() -> None:
    ended_jobs = EndedJobs(bytes_=1000)
    ended_jobs.keep(job(1), Completed(), beside=600)
    ended_jobs.keep(job(2), Completed(), beside=600)
    assert list(ended_jobs) == ["job_2"]
    ended_jobs.keep(job(3), Completed(), beside=5000)
    assert list(ended_jobs) == ["job_3"]
    again = EndedJobs(bytes_=1000)
    again.restore(ended_jobs.all, lambda _: 5000)
    again.keep(job(4), Completed(), beside=0)
    assert list(again) == ["job_4"]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"end":"merged"}', '{"end":"failed","code":'])
def test_what_cannot_be_read_is_no_outcome(text: str) -> None:
    assert event_of(EndedJob("j", "a", "k", "h", outcome=text)) is None


def test_the_last_256_are_kept_and_64_mib() -> None:
    """The numbers of the documentation."""
    ended_jobs = EndedJobs()
    for number in range(1, 258):
        ended_jobs.keep(job(number), Completed(job_id=f"job_{number}"), beside=0)
    assert [*ended_jobs] == [f"job_{number}" for number in range(2, 258)]
    ended_jobs = EndedJobs()
    size = len(_text_of(Completed(job_id="job_1")) or "")
    ended_jobs.keep(job(1), Completed(job_id="job_1"), beside=32 << 20)
    ended_jobs.keep(job(2), Completed(job_id="job_2"), beside=(32 << 20) - 2 * size)
    assert [*ended_jobs] == ["job_1", "job_2"]
    ended_jobs.keep(job(3), Completed(job_id="job_3"), beside=1)
    assert [*ended_jobs] == ["job_2", "job_3"]


def test_a_job_that_is_kept_once_more_is_one_of_the_last() -> None:
    ended_jobs = EndedJobs(jobs=2)
    for number in (1, 2, 1, 3):
        ended_jobs.keep(job(number), Completed(job_id=f"job_{number}", value=1), beside=0)
    assert list(ended_jobs) == ["job_1", "job_3"]
