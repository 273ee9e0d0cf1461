"""The jobs of a session: which are kept, and which are forgotten."""

from __future__ import annotations

from arcp_client._protocol.jobs import EARLY, Jobs


def test_so_many_ended_jobs_are_remembered_the_last_ones() -> None:
    jobs = Jobs(remember=2)
    for job_id in ("a", "b", "c"):
        jobs.learn(job_id)
        assert jobs.end(job_id)
    assert [job.job_id for job in jobs.ended] == ["b", "c"]
    assert set(jobs.table) == {"b", "c"}
    assert not jobs.end("c"), "it had ended before"
    assert not jobs.has_ended("a")


def test_a_job_that_is_open_again_is_not_among_those_that_ended() -> None:
    jobs = Jobs(remember=1)
    jobs.end("a")
    jobs.learn("a")
    jobs.end("b")
    jobs.end("c")
    assert [job.job_id for job in jobs] == ["a"]
    assert set(jobs.table) == {"a", "c"}


def test_so_many_jobs_are_remembered_whose_events_came_before_their_acceptance() -> None:
    jobs = Jobs()
    for number in range(EARLY + 1):
        jobs.came_early(f"job {number}")
    assert len(jobs.table) == EARLY
    assert not jobs.take_early(jobs.learn("job 0"))
    assert jobs.take_early(jobs.learn("job 1"))
    jobs.restarted()
    assert set(jobs.table) == {"job 0", "job 1"}
