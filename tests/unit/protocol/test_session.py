"""The verbs of a session, its states, its ends, and S12 as a session does it."""

from __future__ import annotations

from typing import Any

import pytest

from arcp_client._protocol import actions
from arcp_client._protocol.session import CONFIRMS_WITHIN as PATIENCE
from arcp_client._protocol.session import Session, State
from arcp_client._wire import names
from arcp_client._wire.codec import ControlFrame
from arcp_client.errors import LinkLost, LocalProtocolError, RemoteProtocolError
from arcp_client.models import Checkpoint, EndedJob
from tests.interop.rules import rule
from tests.unit.protocol.kit import JOB, Strict, gaps, live

INTERVAL = 30.0

# ------------------------------------------------------------------ states


def test_a_session_goes_from_link_to_link() -> None:
    table = Strict(connect=False)
    assert table.session.state is State.DOWN
    table.hello()
    assert table.session.state is State.GREETING
    table.cut()
    assert table.session.state is State.DOWN
    table.connect()
    assert table.session.state is State.LIVE
    table.cut()
    assert table.session.state is State.DOWN


def test_a_link_is_greeted_on_once() -> None:
    table = Strict()
    with pytest.raises(LocalProtocolError, match="cannot greet while live"):
        table.hello()


def test_before_the_first_welcome_nothing_is_known() -> None:
    session = Session()
    assert session.session_id is None
    assert session.resume_token is None
    assert session.info is None
    assert session.deadline is None
    assert session.peer.name == "unknown"
    assert not session.negotiated("ack")
    assert (session.received, session.repeated, session.gaps) == (0, 0, 0)


def test_a_session_knows_its_last_id_also_while_there_is_none_to_go_on_with() -> None:
    table = live()
    table.cut()
    table.refuse_hello(names.RESUME_WINDOW_EXPIRED)
    assert table.session.session_id == "sess_1"
    assert table.session.resume_token is None


def test_a_second_welcome_is_no_message_of_a_live_session() -> None:
    table = Strict()
    table.hear({"type": names.WELCOME, "payload": {}})
    assert "unknown type" in table.of(actions.Report)[-1].message


# ------------------------------------------------------------------ the end


def closing(spoken: str, **options: Any) -> Strict:
    table = Strict(spoken=spoken, **options)
    table.session.close(table.now)
    table.do()
    return table


def kinds(table: Strict) -> list[str]:
    return [frame["type"] for frame in table.sent]


@pytest.mark.parametrize("kind", [names.CLOSED, names.BYE])
def test_a_close_ends_with_its_confirmation(kind: str) -> None:
    table = closing("arcp-client")
    assert kinds(table) == [names.CLOSE]
    assert table.session.state is State.CLOSING
    table.hear({"type": kind, "payload": {}})
    assert table.session.state is State.ENDED
    assert [effect.cause for effect in table.of(actions.Ended)] == [None]


def test_a_close_ends_with_its_link() -> None:
    table = closing("arcp-client")
    table.cut()
    assert table.session.state is State.ENDED
    assert len(table.of(actions.Ended)) == 1


def test_a_close_that_nobody_confirms_is_bounded() -> None:
    table = closing("arcp-client")
    table.wait(PATIENCE - 0.1)
    assert table.session.state is State.CLOSING
    table.wait(0.2)
    assert table.session.state is State.ENDED
    assert table.session.deadline is None


def test_a_close_is_idempotent() -> None:
    table = closing("arcp-client")
    table.session.close(table.now)
    table.hear({"type": names.CLOSED, "payload": {}})
    table.session.close(table.now)
    table.session.end(LinkLost("late"))
    table.do()
    assert kinds(table) == [names.CLOSE]
    assert [effect.cause for effect in table.of(actions.Ended)] == [None]


@rule("send-5")
def test_an_unknown_runtime_is_told_as_the_specification_says() -> None:
    table = closing("unknown")
    assert table.session.peer.name == "unknown"
    assert kinds(table) == [names.CLOSE]
    table.hear({"type": names.CLOSED, "payload": {}})
    assert table.session.state is State.ENDED


@rule("send-5")
def test_a_runtime_that_refuses_to_close_the_session_is_not_waited_for_long() -> None:
    table = closing("unknown")
    table.error("INVALID_REQUEST")
    assert table.session.state is State.CLOSING
    table.wait(PATIENCE + 0.1)
    assert kinds(table) == [names.CLOSE]
    assert table.session.state is State.ENDED


def test_where_any_message_would_cancel_the_jobs_none_is_sent() -> None:
    table = closing("java")
    assert table.session.peer.name == "java"
    assert kinds(table) == []
    assert table.session.state is State.ENDED


def test_without_a_link_a_close_ends_at_once() -> None:
    for connected in (False, True):
        table = Strict(connect=False)
        if connected:
            table.hello()
        table.session.close(table.now)
        table.do()
        assert table.session.state is State.ENDED


def test_events_and_answers_still_count_while_it_closes() -> None:
    table = live()
    request = table.ask(names.LIST_JOBS)
    table.session.close(table.now)
    table.do()
    table.event(1, JOB, 1)
    table.hear({"type": names.JOBS, "payload": {"request_id": request.ids[0]}})
    assert table.numbers == [1]
    assert table.of(actions.Replied)[-1].request is request
    with pytest.raises(LocalProtocolError, match="closing"):
        table.ask(names.LIST_JOBS)


def test_a_hole_while_it_closes_asks_for_no_link() -> None:
    table = live()
    table.session.close(table.now)
    table.event(2, JOB, 2)
    table.error("INVALID_REQUEST")
    assert table.causes == []


def test_nothing_comes_out_after_the_end() -> None:
    table = live()
    table.event(2, JOB, 2)
    table.session.end(LinkLost("over"))
    table.do()
    count = len(table.order)
    assert isinstance(table.order[-1], actions.Ended)
    table.event(3, JOB, 3)
    table.raw(b"nonsense")
    table.hear({"type": names.PING, "payload": {"nonce": "n"}})
    table.error("INTERNAL_ERROR")
    table.session.unsubscribe(JOB, table.now)
    table.session.pause(table.now)
    table.session.unpause(table.now)
    table.session.tick(table.now + 1000)
    table.session.lost(table.now)
    table.session.end(None)
    table.session.close(table.now)
    table.do()
    assert len(table.order) == count
    assert table.session.deadline is None


# ------------------------------------------------------------------ watching


def test_a_job_that_is_watched_no_longer_is_forgotten() -> None:
    table = Strict()
    table.ask(names.SUBSCRIBE, job_id=JOB)
    table.confirm(JOB)
    table.session.unsubscribe(JOB, table.now)
    table.do()
    assert table.said(names.UNSUBSCRIBE)["payload"] == {"job_id": JOB}
    assert list(table.session.jobs) == []
    table.cut()
    table.session.unsubscribe(JOB, table.now)
    table.do()
    assert table.sent == []


def test_a_job_of_its_own_is_not() -> None:
    table = live()
    table.session.unsubscribe(JOB, table.now)
    assert [job.job_id for job in table.session.jobs] == [JOB]


# ------------------------------------------------------------------ S12


@rule("accept-25")
def test_s12_an_idle_link_is_pinged_and_left_after_two_silent_intervals() -> None:
    table = Strict()
    table.wait(INTERVAL)
    assert kinds(table) == [names.PING]
    assert table.causes == []
    table.wait(INTERVAL)
    assert table.causes == ["HeartbeatLost"]
    assert "60 s" in str(table.of(actions.Relink)[0].cause)
    table.wait(10 * INTERVAL)
    assert table.causes == ["HeartbeatLost"]


def test_s12_nothing_of_it_is_carried_into_the_next_link() -> None:
    table = Strict()
    table.wait(2 * INTERVAL)
    table.resumed(0)
    for _ in range(10):
        table.wait(INTERVAL)
        table.hear({"type": names.PONG, "payload": {"ping_nonce": "any"}})
    assert table.causes == ["HeartbeatLost"]


def test_s12_every_message_that_comes_counts_also_unreadable_ones() -> None:
    table = live()
    for _ in range(10):
        table.wait(INTERVAL)
        table.raw(b"nonsense")
    assert table.causes == []
    assert table.session.heard_at == table.now


@rule("accept-25")
def test_s12_pings_of_the_runtime_are_answered_negotiated_or_not() -> None:
    for features in ((), names.FEATURES):
        table = Strict(features=features)
        table.hear({"type": names.PING, "payload": {"nonce": "n1"}})
        table.hear({"type": names.PING, "payload": {"nonce": 7}})
        pongs = [table.said(names.PONG)["payload"] for _ in range(2)]
        assert [pong["ping_nonce"] for pong in pongs] == ["n1", ""]


@pytest.mark.parametrize("interval", [None, 0, -1, "30", True, 1e300])
def test_s12_an_interval_that_is_none_means_no_heartbeat(interval: object) -> None:
    table = Strict(connect=False)
    table.connect(heartbeat_interval_sec=interval)
    assert table.session.deadline is None


@pytest.mark.parametrize("interval", [0.2, 1e9])
def test_s12_intervals_may_be_fractional_and_huge(interval: float) -> None:
    table = Strict(connect=False)
    table.connect(heartbeat_interval_sec=interval)
    assert table.session.deadline == table.now + interval


def test_s12_without_the_feature_the_interval_means_nothing() -> None:
    table = Strict(features=("ack",))
    assert table.session.deadline is None


def test_d7_a_paused_reader_hears_nothing_and_proves_nothing() -> None:
    table = Strict()
    table.session.pause(table.now)
    table.wait(10 * INTERVAL)
    assert table.causes == []
    assert set(kinds(table)) == {names.PING}
    table.session.unpause(table.now)
    table.wait(2 * INTERVAL)
    assert table.causes == ["HeartbeatLost"]


def test_after_the_machine_slept_the_runtime_is_asked_first() -> None:
    table = Strict()
    table.now += 3600
    table.session.tick(table.now)
    table.do()
    assert kinds(table) == [names.PING]
    assert table.causes == []
    table.hear({"type": names.PONG, "payload": {}})
    table.wait(0.9 * INTERVAL)
    assert table.causes == []


def test_s12_a_slow_handshake_is_nobodys_heartbeat() -> None:
    table = Strict()
    table.cut()
    table.hello()
    table.wait(100 * INTERVAL)
    assert table.causes == []


# ------------------------------------------------------------------ and all together


def test_a_session_lives_through_everything_and_loses_nothing() -> None:
    table = live()
    table.replay(1, 3)
    table.resumed(3)
    table.event(9, JOB, 9)
    table.replay(2, 6)
    table.resumed(6)
    table.replay(7, 8)
    table.hear({"type": names.CLOSED, "payload": {"reason": "restart"}})
    table.resumed(9)
    table.result(10, JOB)
    assert table.numbers == [*range(1, 10), "result"]
    assert gaps(table) == []
    assert list(table.session.jobs) == []


def test_s12_a_ping_with_an_endless_nonce_is_reported_and_not_answered() -> None:
    table = Strict()
    for length in (names.MAX_NONCE, names.MAX_NONCE + 1):
        table.hear({"type": names.PING, "payload": {"nonce": "n" * length}})
    (pong,) = table.sent
    assert pong["payload"]["ping_nonce"] == "n" * names.MAX_NONCE
    (report,) = table.of(actions.Report)
    assert isinstance(report.error, RemoteProtocolError)


def too_long(seq: int | None) -> RemoteProtocolError:
    """A frame of the job that the transport dropped, and its number, if that could be read."""
    error = RemoteProtocolError("too long")
    error.event_seq, error.job_id = seq, JOB
    return error


def test_a_frame_that_the_transport_dropped_is_a_gap_if_it_had_a_number() -> None:
    table = live()
    table.event(1, JOB, 1)
    table.session.unreadable(too_long(None), table.now)
    table.session.unreadable(too_long(2), table.now)
    table.do()
    table.event(3, JOB, 3)
    assert table.numbers == [1, "gap", 3]
    assert gaps(table) == [(2, 2, "undecodable")]
    assert [str(report.error) for report in table.of(actions.Report)] == ["too long"] * 2


def test_before_a_welcome_it_has_no_place_in_order() -> None:
    table = live()
    table.event(1, JOB, 1)
    table.cut()
    table.hello()
    table.session.unreadable(too_long(2), table.now)
    table.do()
    assert gaps(table) == []
    assert len(table.of(actions.Report)) == 1


def test_only_what_ends_a_job_or_proves_what_was_read_is_taken_in_turn() -> None:
    table = live()
    table.ask(names.CANCEL, job_id=JOB)
    cancel = table.said(names.CANCEL)
    named = {"request_id": cancel["id"], "code": names.PERMISSION_DENIED}
    failed = {"final_status": "error", "code": "INTERNAL_ERROR"}
    frames = {
        "a refusal": ControlFrame(type=names.JOB_ERROR, job_id=JOB, payload=named),
        "a failure": ControlFrame(type=names.JOB_ERROR, job_id=JOB, payload=failed, event_seq=1),
        "a result": ControlFrame(type=names.RESULT, job_id=JOB),
        "a pong": ControlFrame(type=names.PONG, payload={"ping_nonce": "n"}),
        "an acceptance": ControlFrame(type=names.ACCEPTED, job_id=JOB),
    }
    taken = {name for name, frame in frames.items() if table.session.in_turn(frame)}
    assert taken == {"a failure", "a result"}


@pytest.mark.parametrize(("spoken", "sent"), [("arcp-client", True), ("go", False)])
def test_what_acknowledging_would_destroy_is_not_acknowledged(spoken: str, sent: bool) -> None:
    table = live(spoken=spoken)
    table.event(1, JOB, 1)
    assert (table.session.ack(1, table.now) is not None) is sent


def test_a_job_that_had_ended_before_a_restart_does_not_end_again() -> None:
    ended = EndedJob(JOB, "a", "key", "hash", "{}")
    table = Strict(checkpoint=Checkpoint("sess_1", "rst", mark=1, ended=(ended,)))
    table.result(2, JOB)
    table.event(3, "job_b", 3)
    assert table.numbers == [3]


def test_a_message_with_a_number_that_a_restart_found_processed_is_passed_over() -> None:
    table = Strict(checkpoint=Checkpoint("sess_1", "rst", mark=1, processed=((3, 3),)))
    table.event(2, JOB, 2)
    table.hear({"type": names.PONG, "event_seq": 3, "payload": {"ping_nonce": "x"}})
    table.event(4, JOB, 4)
    assert table.numbers == [2, 4]
