"""A history that is asked for once more brings what came before: none of it is new."""

from __future__ import annotations

import pytest

from arcp_client._protocol import actions, dedup
from arcp_client._wire import names
from tests.unit.protocol.kit import JOB, Strict


def history(table: Strict, first: int, job_id: str = JOB, *, length: int = 3) -> int:
    """A job is told from its beginning to its end, in numbers from ``first`` on; gives the next."""
    for n in range(length):
        table.event(first + n, job_id, n, id=f"{job_id}.{n}")
    table.result(first + length, job_id, id=f"{job_id}.end")
    return first + length + 1


def watch(table: Strict, job_id: str = JOB) -> None:
    table.ask(names.SUBSCRIBE, job_id=job_id, history=True)


def kept(table: Strict) -> set[str | None]:
    """The jobs whose events are known by their ids."""
    jobs = table.session.jobs.table
    return {job_id for job_id, job in jobs.items() if job.delivered is not None}


def test_an_end_that_a_replay_brings_before_the_confirmation_is_followed_by_copies_only() -> None:
    table = Strict()
    watch(table)
    table.cut()
    table.connect()  # the confirmation is lost, the history is not: the resume brings it
    subscribe = table.said(names.SUBSCRIBE)
    behind = history(table, 1)
    table.confirmed(subscribe, "success")
    history(table, behind)
    assert table.numbers == [0, 1, 2, "result"]
    assert table.session.repeated == 3
    assert kept(table) == set(), "the history was told: nothing is remembered of it"


def test_so_it_is_where_the_confirmation_overtakes_the_replay() -> None:
    table = Strict()
    watch(table)
    table.cut()
    table.connect()
    table.confirmed(table.said(names.SUBSCRIBE), "success")
    history(table, history(table, 1))
    assert table.numbers == [0, 1, 2, "result"]
    assert kept(table) == set()


def test_in_a_new_session_only_what_is_asked_for_there_is_to_come() -> None:
    table = Strict()
    watch(table)
    table.cut()
    table.connect()
    history(table, 1)
    table.cut()
    table.hello()
    table.error(names.RESUME_WINDOW_EXPIRED)
    table.cut()
    table.connect(session_id="sess_2")
    table.confirmed(table.said(names.SUBSCRIBE), "success")
    history(table, 1)
    assert [n for n in table.numbers if n in (0, 1, 2, "result")] == [0, 1, 2, "result"]
    assert kept(table) == set()


def test_copies_are_known_however_often_the_confirmation_is_lost() -> None:
    table = Strict()
    watch(table)
    seq = 1
    for _ in range(3):
        table.cut()
        table.connect()
        seq = history(table, seq)
    table.confirmed(table.said(names.SUBSCRIBE), "success")
    seq = history(table, seq)
    assert table.numbers == [0, 1, 2, "result"]
    assert kept(table) == set()


def test_whoever_asks_again_for_a_job_that_has_ended_is_told_all_of_it() -> None:
    table = Strict()
    watch(table)
    table.cut()
    table.connect()
    subscribe = table.said(names.SUBSCRIBE)
    behind = history(table, 1)
    table.confirmed(subscribe, "success")
    behind = history(table, behind)
    watch(table)
    table.confirm(JOB, "success")
    history(table, behind)
    assert table.numbers == [0, 1, 2, "result"] * 2


def test_what_is_remembered_of_ended_jobs_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dedup, "LATER_JOBS", 2)
    table = Strict()
    jobs = [f"job_{n}" for n in range(4)]
    for job_id in jobs:
        watch(table, job_id)
    table.cut()
    table.connect()
    seq = 1
    for job_id in jobs:
        seq = history(table, seq, job_id)
    assert kept(table) == {"job_2", "job_3"}


def test_so_it_is_where_a_history_comes_before_its_confirmation() -> None:
    table = Strict()
    watch(table)
    seq = history(table, 1)
    table.cut()
    table.connect()
    subscribe = table.said(names.SUBSCRIBE)
    history(table, seq)
    table.confirmed(subscribe, "success")
    assert table.numbers == [0, 1, 2, "result"]
    assert kept(table) == set()


def test_of_one_job_so_many_events_are_known_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dedup, "REMEMBERED", 2)
    table = Strict()
    table.ask(names.SUBSCRIBE, job_id=JOB, history=True)
    for seq, number in enumerate((1, 2, 3, 3, 2, 1), 1):
        table.event(seq, JOB, number, id=f"{JOB}.{number}")
    assert table.numbers == [1, 2, 3, 1]


def test_copies_are_known_though_the_confirmation_of_an_ended_jobs_watch_never_comes() -> None:
    table = Strict()
    watch(table)
    table.cut()
    table.connect()
    behind = history(table, 1)
    table.wait(30)
    history(table, behind)
    assert table.numbers == [0, 1, 2, "result"]


def test_a_history_behind_its_confirmation_is_over_with_the_end_that_it_brings() -> None:
    table = Strict()
    watch(table)
    table.confirm(JOB, "success")
    history(table, 1)
    assert table.numbers == [0, 1, 2, "result"]
    assert kept(table) == set()


def test_of_a_job_whose_watch_was_refused_nothing_is_remembered_at_its_end() -> None:
    table = Strict()
    table.submit()
    watch(table)
    table.error(names.PERMISSION_DENIED, job_id=JOB)
    assert len(table.of(actions.Refused)) == 1
    table.event(1, JOB, 0, id="0")
    table.result(2, JOB)
    assert table.numbers == [0, "result"]
    assert kept(table) == set()


def test_a_new_session_begins_without_the_jobs_of_which_only_events_were_seen() -> None:
    table = Strict()
    table.event(1, "job_unknown", 0)
    assert "job_unknown" in table.session.jobs.table
    table.cut()
    table.hello()
    table.error(names.RESUME_WINDOW_EXPIRED)
    table.cut()
    table.connect(session_id="sess_2")
    assert "job_unknown" not in table.session.jobs.table
