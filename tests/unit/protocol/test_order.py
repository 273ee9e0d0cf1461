"""S1 and S3: order, repeats, holes and what a checkpoint says (§8.3)."""

from __future__ import annotations

import json

import pytest

from arcp_client._protocol import actions
from arcp_client._protocol.reassembly import SETTLE
from arcp_client._protocol.receiver import ROUNDS
from arcp_client._wire import names
from arcp_client.events import Gap, Progress, Status, Unknown
from arcp_client.models import Checkpoint, OpenJob
from tests.interop.rules import rule
from tests.unit.protocol.kit import JOB, Strict, gaps, live

# ------------------------------------------------------------------ S3: holes


def test_s3_events_in_order_are_given_at_once() -> None:
    table = live()
    table.replay(1, 3)
    assert table.numbers == [1, 2, 3]
    assert table.session.received == 3


def test_s3_nothing_is_given_past_a_hole_and_the_session_is_resumed_from_before_it() -> None:
    table = live()
    table.replay(1, 2)
    table.event(4, JOB, 4)
    assert table.numbers == [1, 2]
    assert table.causes == ["LinkLost"]
    assert "event 3 is missing" in str(table.of(actions.Relink)[0].cause)
    table.resumed(2)
    table.replay(3, 5)
    assert table.numbers == [1, 2, 3, 4, 5]
    assert gaps(table) == []


def test_s3_what_came_meanwhile_is_kept_and_asked_for_once() -> None:
    table = live()
    table.event(1, JOB, 1)
    for seq in (3, 4, 5):
        table.event(seq, JOB, seq)
    assert table.causes == ["LinkLost"]
    table.resumed(1)
    table.event(2, JOB, 2)
    assert table.numbers == [1, 2, 3, 4, 5]


def test_s3_a_hole_that_a_resume_does_not_fill_is_lost_once_the_replay_has_settled() -> None:
    table = live()
    table.event(1, JOB, 1)
    table.event(4, JOB, 4)
    table.resumed(1)
    table.alive(SETTLE - 0.1)
    assert table.numbers == [1]
    table.alive(0.2)
    assert table.numbers == [1, "gap", 4]
    assert gaps(table) == [(2, 3, "lost")]
    table.event(5, JOB, 5)
    assert table.numbers[-1] == 5


def test_s3_nothing_is_lost_because_of_a_link_that_stands_still() -> None:
    table = live()
    table.event(1, JOB, 1)
    table.event(4, JOB, 4)
    table.resumed(1)
    table.wait(10 * SETTLE)
    assert {frame["type"] for frame in table.sent} == {names.PING}
    assert gaps(table) == []
    table.replay(2, 3)
    assert table.numbers == [1, 2, 3, 4]


def test_s3_without_a_heartbeat_the_patience_with_a_silent_link_is_bounded() -> None:
    table = live(features=())
    table.event(2, JOB, 2)
    table.resumed(0)
    table.wait(ROUNDS * SETTLE - 0.1)
    assert gaps(table) == []
    table.wait(0.2)
    assert gaps(table) == [(1, 1, "lost")]
    assert table.sent == []


def test_s3_a_hole_is_never_lost_before_a_link_was_resumed() -> None:
    """Frames that still come over the old link, and links that fail, prove nothing."""
    table = live()
    table.event(1, JOB, 1)
    table.event(3, JOB, 3)
    table.event(4, JOB, 4)
    table.wait(10 * SETTLE)
    for _ in range(3):
        table.cut()
        table.wait(60)
        table.hello()
    assert gaps(table) == []
    table.cut()
    table.connect()
    table.replay(2, 4)
    assert table.numbers == [1, 2, 3, 4]


@pytest.mark.parametrize("moment", [0.0, 0.01])
def test_s3_a_hole_is_given_up_though_each_answer_bears_the_reading_of_its_ping(
    moment: float,
) -> None:
    table = live()
    table.replay(1, 2)
    table.event(5, JOB, 5)
    table.resumed(2)
    table.event(5, JOB, 5)
    table.alive(2 * SETTLE, moment=moment)
    assert gaps(table) == [(3, 4, "lost")]
    assert table.numbers == [1, 2, "gap", 5]


def test_s3_a_held_hole_sets_no_timer_while_there_is_no_link() -> None:
    table = live()
    table.event(2, JOB, 2)
    table.cut()
    assert table.session.deadline is None


@rule("accept-18")
def test_s3_live_events_ahead_of_the_replay_are_held_until_it_has_caught_up() -> None:
    table = live()
    table.replay(1, 10)
    table.resumed(10)
    table.event(40, JOB, 40)
    for seq in range(11, 40):
        table.wait(0.9 * SETTLE)  # slower than a hole's patience, but it moves
        table.event(seq, JOB, seq)
    assert table.numbers == list(range(1, 41))
    assert table.causes == []


def test_s3_a_second_drop_while_behind_asks_from_where_the_first_replay_came_to() -> None:
    table = live()
    table.replay(1, 5)
    table.resumed(5)
    table.event(20, JOB, 20)
    table.replay(6, 9)
    table.resumed(9)
    table.replay(10, 21)
    assert table.numbers == list(range(1, 22))


def test_s3_beyond_the_limit_the_newest_are_forgotten_and_fetched_by_a_later_resume() -> None:
    table = live(limit=3)
    table.event(1, JOB, 1)
    table.replay(3, 9)
    table.resumed(1)
    table.event(2, JOB, 2)
    assert table.numbers == [1, 2, 3, 4, 5]
    assert (
        table.session.deadline is not None
    )  # nothing else may ever come to show that 6 is missing
    table.alive(2 * SETTLE)
    table.resumed(5)
    table.replay(6, 9)
    assert table.numbers == list(range(1, 10))
    assert gaps(table) == []


def test_s3_what_was_forgotten_and_does_not_come_again_is_lost() -> None:
    table = live(limit=1)
    table.event(2, JOB, 2)
    table.event(3, JOB, 3)
    table.resumed(0)
    table.event(1, JOB, 1)
    table.alive(2 * SETTLE)
    table.resumed(2)
    table.alive(2 * SETTLE)
    assert gaps(table) == [(3, 3, "lost")]
    assert table.causes == ["LinkLost", "LinkLost"]


def test_s3_an_older_one_takes_the_place_of_the_newest() -> None:
    table = live(limit=2)
    for seq in (9, 8, 3):
        table.event(seq, JOB, seq)
    table.resumed(0)
    table.replay(1, 9)
    assert table.numbers == list(range(1, 10))


def test_s3_without_a_resume_token_a_hole_is_waited_for_and_then_lost() -> None:
    """The link is not dropped: the session would be lost with it."""
    table = Strict(connect=False)
    table.connect(resume_token=None)
    table.sent.clear()
    table.submit()
    table.event(1, JOB, 1)
    table.event(3, JOB, 3)
    assert table.causes == []
    table.event(2, JOB, 2)
    table.event(5, JOB, 5)
    table.alive(2 * SETTLE)
    assert table.numbers == [1, 2, 3, "gap", 5]
    assert table.causes == []


def test_s3_an_unreadable_frame_with_a_number_is_received_and_said_so() -> None:
    table = live()
    table.event(1, JOB, 1)
    table.unreadable(2)
    table.event(3, JOB, 3)
    assert table.numbers == [1, "gap", 3]
    assert gaps(table) == [(2, 2, "undecodable")]
    assert table.events[1].job_id == JOB
    assert table.causes == []


def test_s3_an_unreadable_frame_that_every_replay_repeats_costs_one_gap() -> None:
    table = live()
    table.event(1, JOB, 1)
    table.unreadable(2)
    for _ in range(3):
        table.resumed(2)
        table.unreadable(2)
    assert gaps(table) == [(2, 2, "undecodable")]


def test_s3_an_unreadable_frame_without_a_number_is_only_reported() -> None:
    table = live()
    table.raw(b"nonsense")
    assert [report.error is not None for report in table.of(actions.Report)] == [True]
    assert table.events == []


def test_s3_an_unreadable_frame_behind_a_hole_keeps_its_place() -> None:
    table = live()
    table.unreadable(3)
    table.event(2, JOB, 2)
    table.resumed(0)
    table.event(1, JOB, 1)
    assert table.numbers == [1, 2, "gap"]


def test_s3_an_end_behind_a_hole_waits_for_what_was_before_it() -> None:
    table = live()
    table.event(1, JOB, 1)
    table.result(3, JOB)
    assert table.numbers == [1]
    table.resumed(1)
    table.event(2, JOB, 2)
    assert table.numbers == [1, 2, "result"]


@rule("accept-18")
def test_s3_an_end_without_a_number_behind_a_hole_waits_too() -> None:
    table = live()
    table.event(2, JOB, 2)
    table.hear({"type": "job.result", "job_id": JOB, "payload": {"final_status": "success"}})
    assert table.numbers == []
    table.resumed(0)
    table.event(1, JOB, 1)
    assert table.numbers == [1, 2, "result"]


# ------------------------------------------------------------------ repeats


def test_a_peer_that_ignores_the_cursor_repeats_nothing_and_is_warned_of_once() -> None:
    table = live()
    table.replay(1, 5)
    table.resumed(5)
    table.replay(1, 7)
    assert table.numbers == [1, 2, 3, 4, 5, 6, 7]
    assert table.session.repeated == 5
    assert len([r for r in table.of(actions.Report) if "again" in r.message]) == 1


@rule("accept-18")
@pytest.mark.parametrize("spoken", ["go", "unknown"])
def test_where_frames_overtake_one_another_a_hole_has_a_moment_to_fill_itself(spoken: str) -> None:
    table = live(spoken=spoken)
    patience = table.session.peer.hole_patience
    assert patience > 0
    for first, second in ((2, 1), (4, 3), (6, 5)):
        table.event(first, JOB, first)
        table.wait(patience / 2)
        table.event(second, JOB, second)
    assert table.numbers == [1, 2, 3, 4, 5, 6]
    assert table.causes == []


@pytest.mark.parametrize("spoken", ["go", "unknown"])
def test_each_hole_has_its_moment_and_one_that_stays_is_asked_for(spoken: str) -> None:
    table = live(spoken=spoken)
    patience = table.session.peer.hole_patience
    table.event(2, JOB, 2)
    table.event(4, JOB, 4)
    table.wait(0.8 * patience)
    table.event(1, JOB, 1)  # 3 is missing yet, and has been for long, but was not the first
    table.wait(0.8 * patience)
    assert table.causes == []
    table.wait(patience)
    assert table.causes == ["LinkLost"]
    table.resumed(2)
    table.replay(3, 4)
    assert table.numbers == [1, 2, 3, 4]


def test_the_end_of_an_open_job_is_no_repeat_whatever_its_number() -> None:
    table = live()
    table.replay(1, 5)
    table.resumed(5)
    table.event(1, JOB, 9, id="new")  # the runtime begins to count anew, against the rules
    table.result(2, JOB)
    assert table.numbers == [1, 2, 3, 4, 5, "result"]
    assert "again" in table.of(actions.Report)[0].message
    table.result(2, JOB)
    assert table.numbers.count("result") == 1
    assert table.session.received == 5


def test_a_repeated_end_behind_a_hole_stays_behind_it() -> None:
    table = live()
    table.result(3, JOB)
    table.result(3, JOB)
    assert table.numbers == []
    table.resumed(0)
    table.replay(1, 2)
    table.result(3, JOB)
    assert table.numbers == [1, 2, "result"]


def test_a_repeat_of_what_is_held_is_dropped() -> None:
    table = live()
    table.event(2, JOB, 2)
    table.event(2, JOB, 2)
    table.resumed(0)
    table.event(1, JOB, 1)
    assert table.numbers == [1, 2]


def test_a_second_end_of_a_job_is_dropped() -> None:
    table = live()
    table.result(1, JOB)
    table.result(2, JOB)
    assert table.numbers == ["result"]
    assert table.session.received == 2


def test_an_end_that_names_no_job_is_reported() -> None:
    table = live()
    table.hear({"type": "job.result", "event_seq": 1, "payload": {"final_status": "success"}})
    assert table.events == []
    assert "names no job" in table.of(actions.Report)[-1].message


# ------------------------------------------------------------------ numbers on other frames


def test_control_frames_without_a_number_move_no_cursor() -> None:
    table = live()
    table.replay(1, 3)
    table.hear({"type": names.PING, "payload": {"nonce": "n"}})
    table.hear({"type": names.JOBS, "payload": {"jobs": None}})
    table.resumed(3)


@rule("accept-18")
def test_control_frames_with_a_number_take_part_in_the_order() -> None:
    table = live()
    cancel = table.ask(names.CANCEL, job_id=JOB)
    table.hear({"type": names.CANCELLED, "event_seq": 1, "payload": {"job_id": JOB}})
    assert [answer.request for answer in table.of(actions.Replied)][-1] is cancel
    table.event(2, JOB, 2)
    assert table.numbers == [2]
    assert table.session.received == 2


def test_a_numbered_control_frame_behind_a_hole_acts_at_once_and_counts_in_its_turn() -> None:
    table = live()
    table.ask(names.CANCEL, job_id=JOB)
    table.hear({"type": names.CANCELLED, "event_seq": 2, "payload": {"job_id": JOB}})
    assert len(table.of(actions.Replied)) == 2
    table.resumed(0)
    table.event(1, JOB, 1)
    assert table.session.received == 2


@rule("accept-8", "accept-18")
def test_a_refusal_with_a_number_counts_and_ends_nothing() -> None:
    table = live()
    request = table.ask(names.SUBMIT)
    submit = table.said(names.SUBMIT)
    table.failure(1, "job_made_up", "AGENT_NOT_AVAILABLE", trace_id=submit.get("trace_id"))
    assert [refused.request for refused in table.of(actions.Refused)] == [request]
    table.event(2, JOB, 2)
    assert table.numbers == [2]


def test_a_message_of_an_unknown_type_is_reported_and_its_number_counts() -> None:
    table = live()
    table.hear({"type": "job.surprise", "event_seq": 1, "payload": {}})
    assert "job.surprise" in table.of(actions.Report)[-1].message
    table.event(2, JOB, 2)
    assert table.numbers == [2]


# ------------------------------------------------------------------ S1: checkpoints


def checkpoint(**fields: object) -> Checkpoint:
    return Checkpoint(session_id="sess_1", resume_token="t", **fields)  # type: ignore[arg-type]


def test_s1_a_checkpoint_is_resumed_from_its_mark() -> None:
    table = Strict(connect=False, checkpoint=checkpoint(mark=4))
    hello = table.connect()
    assert hello["payload"]["resume"]["last_event_seq"] == 4
    assert hello["payload"]["resume"]["resume_token"] == "t"
    assert table.session.received == 4


def test_s1_what_was_processed_above_the_mark_is_passed_over() -> None:
    table = Strict(checkpoint=checkpoint(mark=2, processed=((7, 7), (4, 5))))
    table.replay(3, 9)
    assert table.numbers == [3, 6, 8, 9]
    assert table.session.received == 9


def test_s10_what_may_have_been_seen_before_is_marked() -> None:
    table = Strict(checkpoint=checkpoint(mark=2, reserved=4))
    table.replay(3, 4)
    table.result(5, JOB)
    assert [event.redelivered for event in table.events] == [True, True, False]


def test_s1_an_end_that_was_processed_has_ended_its_job() -> None:
    job = OpenJob(job_id=JOB, agent="a", idempotency_key="k", payload_hash="h")
    table = Strict(checkpoint=checkpoint(mark=1, processed=((3, 3),), jobs=(job,)))
    assert [known.job_id for known in table.session.jobs] == [JOB]
    table.event(2, JOB, 2)
    table.result(3, JOB)
    assert table.numbers == [2]
    assert list(table.session.jobs) == []


def test_s1_a_new_credential_counts_though_its_event_was_processed() -> None:
    table = Strict(checkpoint=checkpoint(mark=0, processed=((1, 2),)))
    table.hear(rotated(1, "status", id="c", value="s3cret"))
    table.unreadable(2)
    assert [r.credential_id for r in table.of(actions.Rotated)] == ["c"]
    assert table.events == []


def test_s1_a_fresh_session_has_nothing_to_pass_over() -> None:
    table = Strict(connect=False, checkpoint=checkpoint(mark=2, processed=((1, 9),), reserved=9))
    table.connect(session_id="sess_2")
    table.replay(1, 2)
    assert table.numbers == ["gap", 1, 2]
    assert [event.redelivered for event in table.events] == [False, False, False]
    assert table.session.reserved == 0


def test_s1_the_received_cursor_is_ahead_of_what_was_processed() -> None:
    """A reconnect in the same process asks for nothing that the lanes still hold."""
    table = live()
    table.replay(1, 9)
    ack = table.session.ack(4, table.now)
    assert ack is not None
    assert json.loads(ack.data)["payload"] == {"last_processed_seq": 4}
    table.resumed(9)


@rule("send-9")
def test_s1_acks_are_sent_only_if_negotiated_and_only_on_a_live_link() -> None:
    table = live(features=("heartbeat",))
    assert not table.session.ack(1, table.now)
    table = live()
    table.cut()
    assert not table.session.ack(1, table.now)


# ------------------------------------------------------------------ D14: credentials


def rotated(seq: int, kind: str, **body: str) -> dict[str, object]:
    payload = {"kind": kind, "ts": None, "body": {"phase": "credential_rotated", **body}}
    return {"type": "job.event", "job_id": JOB, "event_seq": seq, "payload": payload}


@pytest.mark.parametrize(("kind", "shown"), [("status", Status), ("x-vendor.acme.note", Unknown)])
def test_d14_a_rotated_credential_goes_to_its_job_and_is_masked_in_the_event(
    kind: str, shown: type
) -> None:
    table = live()
    table.hear(rotated(1, kind, id="cred", value="s3cret"))
    (told,) = table.of(actions.Rotated)
    assert (told.job_id, told.credential_id) == (JOB, "cred")
    assert told.value.get_secret_value() == "s3cret"
    (event,) = table.events
    assert isinstance(event, shown)
    assert "s3cret" not in repr(event) + repr(event.raw) + repr(told)


def test_d14_a_rotation_without_a_value_is_just_an_event() -> None:
    table = live()
    table.hear(rotated(1, "status", id="cred"))
    assert table.of(actions.Rotated) == []
    assert len(table.events) == 1


# ------------------------------------------------------------------ odd frames


def test_holes_are_looked_for_in_the_session_before_events_are_told_by_job() -> None:
    table = live()
    table.submit("job_b")
    table.event(1, JOB, 1)
    table.event(2, "job_b", 2)
    table.event(3, JOB, 3)
    assert table.numbers == [1, 2, 3]
    assert table.causes == []


def test_an_event_without_a_number_is_delivered_as_it_comes() -> None:
    table = live()
    table.event(None, JOB, 1)
    assert table.numbers == [1]
    assert table.events[0].seq is None


def test_events_before_the_welcome_belong_to_nobody() -> None:
    table = live()
    table.event(1, JOB, 1)
    table.cut()
    table.event(2, JOB, 2)
    table.hello()
    table.event(2, JOB, 2)
    table.raw(b"nonsense")
    assert table.numbers == [1]
    assert len(table.of(actions.Report)) == 1


def test_the_fast_path_gives_what_the_slow_one_does() -> None:
    table = live()
    event = {"type": "job.event", "job_id": JOB, "event_seq": 1}
    payload = {"kind": "progress", "ts": None, "body": {"current": 7}}
    table.hear({**event, "payload": payload})
    assert isinstance(table.events[0], Progress)
    assert not isinstance(table.events[0], Gap)
    assert table.order == [effect for effect in table.order if not isinstance(effect, Progress)]
