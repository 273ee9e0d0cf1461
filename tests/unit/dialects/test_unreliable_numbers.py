"""S2: runtimes whose numbers repeat, collide or are missing; envelope ids are what counts."""

from __future__ import annotations

import pytest

from arcp_client._dialects import _unreliable_numbers
from arcp_client._dialects._unreliable_numbers import TolerantReassembly
from arcp_client._protocol import actions
from arcp_client._protocol.reassembly import SETTLE, LostNumbers, Placement
from arcp_client._wire import names
from arcp_client.errors import ResultUnavailable
from tests.unit.protocol.kit import JOB, Strict, gaps, live


@pytest.fixture
def table() -> Strict:
    """A runtime that re-stamps what it sends again, with a job that runs."""
    return live(spoken="typescript")


# ------------------------------------------------------------------ repeats


def test_s2_repeats_are_known_by_envelope_id_never_by_number(table: Strict) -> None:
    table.event(1, JOB, 1, id="a")
    table.event(1, JOB, 2, id="b")
    table.event(2, JOB, 1, id="a")
    table.event(3, JOB, 3, id="c")
    assert table.numbers == [1, 2, 3]
    assert table.session.repeated == 1
    assert table.session.received == 3  # the repeat took a number


def test_s2_the_same_id_in_another_job_is_another_event(table: Strict) -> None:
    table.event(1, JOB, 1, id="a")
    table.event(2, "job_b", 2, id="a")
    assert table.numbers == [1, 2]


def test_s2_events_without_an_id_are_never_repeats(table: Strict) -> None:
    table.event(1, JOB, 1, id="")
    table.event(1, JOB, 2, id="")
    assert table.numbers == [1, 2]


def test_s2_an_unreadable_frame_without_an_id_is_told_apart_by_its_number(table: Strict) -> None:
    for _ in range(3):
        table.raw(b'{"type":"job.event","job_id":"job_a","event_seq":1,"payload":{"kind":nope}}')
    table.unreadable(2, id="x")
    table.unreadable(2, id="x")
    assert gaps(table) == [(1, 1, "undecodable"), (2, 2, "undecodable")]


def test_s2_what_comes_again_after_a_long_outage_is_handled_once(table: Strict) -> None:
    table.event(1, JOB, 1, id="a")
    table.resumed(1)
    table.said(names.SUBSCRIBE)
    table.now += 3600
    table.event(1, JOB, 1, id="a")
    assert table.numbers == [1]


# ------------------------------------------------------------------ holes


def test_s2_a_hole_is_waited_for_two_seconds_and_never_drops_the_link(table: Strict) -> None:
    table.event(1, JOB, 1)
    table.event(4, JOB, 4)
    table.wait(SETTLE - 0.1)
    assert table.numbers == [1]
    table.wait(0.2)
    assert table.numbers == [1, "gap", 4]
    assert gaps(table) == [(2, 3, "lost")]
    assert table.causes == []


def test_s2_a_hole_that_is_filled_in_time_was_none(table: Strict) -> None:
    table.event(2, JOB, 2)
    table.event(1, JOB, 1)
    assert table.numbers == [1, 2]
    table.wait(2 * SETTLE)
    assert gaps(table) == []


def test_s2_an_old_number_behind_a_hole_waits_too(table: Strict) -> None:
    table.event(1, JOB, 1)
    table.event(3, JOB, 3)
    table.event(1, JOB, 9)
    assert table.numbers == [1]
    table.event(2, JOB, 2)
    assert table.numbers == [1, 2, 3, 9]


def test_s2_with_too_much_behind_it_a_hole_is_given_up_at_once_and_nothing_is_forgotten() -> None:
    table = live(spoken="typescript", limit=2)
    for seq in (2, 3, 4):
        table.event(seq, JOB, seq)
    assert table.numbers == ["gap", 2, 3, 4]


def test_s2_with_too_many_old_numbers_behind_it_they_are_delivered_at_once() -> None:
    table = live(spoken="typescript", limit=2)
    table.event(1, JOB, 1)
    table.event(3, JOB, 3)
    for number in (7, 8, 9):
        table.event(1, JOB, number)
    assert table.numbers == [1, 9]
    table.event(2, JOB, 2)
    assert table.numbers == [1, 9, 2, 3, 7, 8]


def test_s2_a_session_from_a_checkpoint_is_tolerant_once_the_runtime_is_known() -> None:
    from arcp_client.models import Checkpoint

    kept = Checkpoint(session_id="sess_1", resume_token="t", mark=5, processed=((7, 7),))
    table = Strict(spoken="typescript", checkpoint=kept)
    for seq in (6, 7, 8):
        table.event(seq, JOB, seq, id=f"e{seq}")
    table.event(9, JOB, 8, id="e8")
    assert table.numbers == [6, 8]


def test_s2_a_watched_job_with_numbers_of_its_own_has_none_here() -> None:
    table = Strict(spoken="ruby")
    table.submit()
    table.ask(names.SUBSCRIBE, job_id="job_w", history=True)
    table.event(1, "job_w", 1)
    table.event(1, JOB, 1)
    table.event(77, "job_w", 2)
    assert table.numbers == [1, 1, 2]
    assert [event.seq for event in table.events] == [None, 1, None]
    assert table.session.received == 1


# ------------------------------------------------------------------ the sequence by itself


def test_the_number_of_remembered_ids_is_bounded(
    table: Strict, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_unreliable_numbers, "REMEMBERED", 2)
    for seq, name in enumerate("abcab", 1):
        table.event(seq, JOB, seq, id=name)
    assert table.numbers == [1, 2, 3, 4, 5]
    table.event(6, JOB, 6, id="b")
    assert table.numbers == [1, 2, 3, 4, 5]


def test_ids_are_known_in_the_next_session_too(table: Strict) -> None:
    table.event(1, JOB, 1, id="a")
    table.cut()
    table.refuse_hello(names.RESUME_WINDOW_EXPIRED)
    table.cut()
    table.refuse_hello(names.RESUME_WINDOW_EXPIRED)  # one event earlier
    table.cut()
    table.connect(session_id="sess_2")
    table.event(1, JOB, 1, id="a")
    table.event(2, JOB, 2, id="b")
    assert table.numbers == [1, "gap", 2]


def test_after_a_rebase_the_next_number_follows_whatever_it_is() -> None:
    sequence: TolerantReassembly[str] = TolerantReassembly()
    assert sequence.offer(3, "three", 0.0) is Placement.HELD
    assert sequence.offer(6, "six", 0.0) is Placement.HELD
    assert list(sequence.rebase()) == ["three", "six"]
    assert sequence.offer(40, "forty", 0.0) is Placement.NEXT
    assert sequence.offer(42, "forty-two", 0.0) is Placement.HELD
    assert list(sequence.expire(SETTLE)) == [LostNumbers(41, 41), "forty-two"]


# ------------------------------------------------------------------ what else the way back needs


def test_s6_without_subscriptions_an_old_jobs_outcome_cannot_be_had() -> None:
    table = Strict(features=(names.LISTING,))
    table.ask(names.SUBMIT)
    table.cut()
    table.refuse_hello(names.RESUME_WINDOW_EXPIRED)
    table.cut()
    table.sent.clear()
    table.connect(session_id="sess_2", accepted_at="2026-01-01T00:00:20Z")
    table.accept(JOB, at="2026-01-01T00:00:11Z")
    assert [type(told.error) for told in table.of(actions.JobGone)] == [ResultUnavailable]


def test_watching_a_job_that_has_ended_ends_at_once() -> None:
    table = Strict()
    table.ask(names.SUBSCRIBE, job_id=JOB, history=False)
    table.confirm(JOB, "success")
    assert table.confirm(JOB, "success")["payload"]["history"] is True  # for its outcome only
    table.event(1, JOB, 1)
    table.result(2, JOB)
    assert table.numbers == ["result"]


def test_a_history_may_bring_the_end_before_its_confirmation() -> None:
    table = live(spoken="typescript")
    table.ask(names.SUBSCRIBE, job_id="job_w", history=True)
    subscribe = table.said(names.SUBSCRIBE)
    table.result(1, "job_w")
    table.confirmed(subscribe, "success")
    assert table.numbers == ["result"]
    table.alive(60)
    assert table.of(actions.JobGone) == []


def test_a_frame_may_be_heard_now_and_read_later() -> None:
    table = live()
    table.session.frame_seen(table.now + 5)
    assert table.session.heard_at == table.now + 5


# ------------------------------------------------------------------ numbers apart


def test_the_number_of_ended_jobs_that_are_known_to_be_numbered_apart_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_unreliable_numbers, "PARTED", 1)
    table = Strict(spoken="python")
    for job_id in ("job_w", "job_x"):
        table.ask(names.SUBSCRIBE, job_id=job_id, history=True)
        table.confirm(job_id)
        table.result(50, job_id)
    assert table.numbers == ["result", "result"]
    table.event(51, "job_x", 2)  # late, and still in its own numbers
    assert table.session.received == 0
    table.event(1, "job_w", 3)  # nothing is known of it any more
    assert table.session.received == 1


def test_what_comes_of_a_job_that_is_watched_no_longer_is_not_remembered() -> None:
    table = Strict(spoken="python")
    table.ask(names.SUBSCRIBE, job_id=JOB, history=False)
    table.confirm(JOB)
    table.session.unsubscribe(JOB, table.now)
    table.do()
    table.event(1, JOB, 1, id="a")
    assert table.events == []
    assert table.session.repeated == 0
    table.alive(0.1)
    table.sent.clear()
    table.ask(names.SUBSCRIBE, job_id=JOB, history=True)
    table.event(1, JOB, 1, id="a")
    table.confirm(JOB)
    assert table.numbers == [1]


def test_events_without_a_time_are_never_copies() -> None:
    table = Strict(spoken="python")
    table.ask(names.SUBSCRIBE, job_id=JOB, history=True)
    for seq in (1, 2):
        payload = {"kind": "progress", "body": {"current": 1}}
        frame = {"type": names.EVENT, "job_id": JOB, "event_seq": seq, "payload": payload}
        table.hear(frame)
    table.confirm(JOB)
    assert table.numbers == [1, 1]
