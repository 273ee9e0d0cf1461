"""S5: hellos, welcomes, and refusals before and after the welcome (§6.1 to §6.3)."""

from __future__ import annotations

import pytest
from pydantic import SecretStr

from arcp_client._dialects import DIALECTS
from arcp_client._protocol import actions
from arcp_client._protocol.resume import CUTS, REFUSALS
from arcp_client._protocol.session import Session
from arcp_client._wire import names
from arcp_client.errors import RemoteProtocolError, RequestError, ResumeExpired
from tests.interop.rules import rule
from tests.unit.protocol.kit import JOB, Strict, gaps, live
from tests.unit.protocol.scripted import welcome

# ------------------------------------------------------------------ the hello


@rule("send-1", "send-3")
def test_a_hello_has_the_token_the_features_and_a_session_id_of_its_own() -> None:
    table = Strict(connect=False, features=("ack",))
    hello = table.hello()
    assert hello["payload"]["auth"] == {"scheme": "bearer", "token": "secret"}
    assert hello["payload"]["capabilities"]["features"] == ["ack"]
    assert hello["session_id"].startswith("sess_")
    assert "resume" not in hello["payload"]


def test_every_fresh_hello_has_another_session_id() -> None:
    """One runtime takes it for the session's: it must not be that of the session before."""
    table = Strict(connect=False)
    first = table.hello()["session_id"]
    table.cut()
    assert table.hello()["session_id"] != first


@rule("accept-2")
def test_features_are_those_that_both_sides_offer() -> None:
    table = Strict(connect=False, features=("ack", "subscribe"))
    table.connect(capabilities={"features": ["ack", "heartbeat"]})
    assert table.session.info is not None
    assert table.session.info.features == {"ack"}
    assert table.session.negotiated("ack")
    assert not table.session.negotiated("subscribe")


def test_a_session_is_resumed_before_its_first_event_too() -> None:
    table = live()
    table.resumed(0)
    table.replay(1, 2)
    assert table.numbers == [1, 2]


def test_s5_the_token_of_each_welcome_is_told_before_anything_else() -> None:
    table = live()
    table.ask(names.LIST_JOBS)
    table.cut()
    table.order.clear()
    table.hello()
    table.order.clear()
    table.hear(welcome("arcp-client", table.id, resume_token="newest"))
    assert isinstance(table.order[0], actions.Opened)
    assert table.order[0].welcome.resume_token.get_secret_value() == "newest"
    assert isinstance(table.order[1], actions.Send)
    assert table.session.resume_token == SecretStr("newest")


def test_a_dialect_may_be_told_instead_of_recognised() -> None:
    table = Strict(connect=False)
    table.session = Session(peer=DIALECTS["java"])
    assert table.session.peer.name == "java"
    table.connect()
    assert table.session.peer.name == "java"


# ------------------------------------------------------------------ what is no welcome


@pytest.mark.parametrize("kind", sorted(names.LEGACY_TYPES))
@rule("accept-4")
def test_the_older_family_is_named_in_the_error(kind: str) -> None:
    table = Strict(connect=False)
    table.hello()
    table.hear({"type": kind, "payload": {}})
    (relink,) = table.of(actions.Relink)
    assert isinstance(relink.cause, RemoteProtocolError)
    assert "another protocol" in str(relink.cause)
    assert kind in str(relink.cause)


def test_a_welcome_that_names_no_session_is_none() -> None:
    table = Strict(connect=False)
    table.hello()
    table.hear({**welcome("go", ""), "session_id": ""})
    assert table.causes == ["RemoteProtocolError"]
    assert table.of(actions.Opened) == []


@pytest.mark.parametrize("kind", [names.CLOSED, names.BYE])
@rule("accept-4")
def test_a_close_in_the_handshake_asks_for_another_link(kind: str) -> None:
    table = Strict(connect=False)
    table.hello()
    table.hear({"type": kind, "payload": {}})
    assert table.causes == ["SessionClosed"]


@rule("accept-4")
def test_any_error_in_the_handshake_refuses_it_at_once_whatever_its_form() -> None:
    for kind in (names.SESSION_ERROR, names.JOB_ERROR):
        table = live()
        table.cut()
        table.hello()
        table.hear({"type": kind, "session_id": "", "payload": {"code": "RESUME_WINDOW_EXPIRED"}})
        assert table.causes == ["ResumeExpired"]


def test_other_messages_before_the_welcome_change_nothing() -> None:
    table = Strict(connect=False)
    table.hello()
    table.hear({"type": names.PING, "payload": {"nonce": "n"}})
    assert table.order[1:] == []


def test_what_comes_after_a_refusal_on_the_same_link_is_ignored() -> None:
    """Some runtimes leave the link open and would take another hello."""
    table = live()
    table.cut()
    table.refuse_hello("RESUME_WINDOW_EXPIRED")
    table.hear(welcome("arcp-client", "sess_9"))
    assert len(table.of(actions.Opened)) == 1


# ------------------------------------------------------------------ refusals before the welcome


def test_a_refused_token_is_said_to_be_that() -> None:
    table = Strict(connect=False)
    table.refuse_hello(names.UNAUTHENTICATED, message="who are you")
    assert table.causes == ["Unauthenticated"]
    assert "who are you" in str(table.of(actions.Relink)[0].cause)


def test_a_first_hello_that_is_refused_keeps_the_runtimes_word_on_another_try() -> None:
    table = Strict(connect=False)
    table.refuse_hello(names.INTERNAL_ERROR, retryable=True)
    cause = table.of(actions.Relink)[0].cause
    assert isinstance(cause, RequestError)
    assert cause.retryable


@rule("accept-24")
def test_s5_permission_denied_may_pass_and_is_followed_by_one_fresh_session() -> None:
    table = live()
    table.replay(1, 2)
    hellos = []
    for _ in range(REFUSALS):
        table.cut()
        hellos.append(table.refuse_hello(names.PERMISSION_DENIED))
    assert all(hello["payload"]["resume"]["last_event_seq"] == 2 for hello in hellos)
    table.cut()
    assert "resume" not in table.connect(session_id="sess_2")["payload"]
    assert gaps(table) == [(3, None, "unknown_end")]


def test_s5_a_bearer_token_that_ran_out_does_not_cost_the_session() -> None:
    table = live()
    table.replay(1, 2)
    table.cut()
    table.refuse_hello(names.UNAUTHENTICATED)
    table.cut()
    table.session.greet(SecretStr("another"), table.now)
    table.do()
    hello = table.said(names.HELLO)
    assert hello["payload"]["auth"]["token"] == "another"
    assert hello["payload"]["resume"]["last_event_seq"] == 2
    table.hear(welcome("arcp-client", table.id))
    assert table.of(actions.Opened)[-1].resumed


def test_s5_a_resume_token_that_is_refused_as_if_it_were_the_bearer_ends_in_a_fresh_session() -> (
    None
):
    table = live()
    table.cut()
    table.refuse_hello(names.UNAUTHENTICATED)
    table.cut()
    assert "resume" not in table.connect(session_id="sess_2")["payload"]


def test_a_token_that_was_rotated_and_never_delivered_leads_to_one_fresh_hello() -> None:
    table = live()
    table.replay(1, 3)
    table.cut()
    for _ in range(2):  # taken, and cut before the welcome came
        assert "resume" in table.hello()["payload"]
        table.cut()
    table.refuse_hello(names.PERMISSION_DENIED)
    table.cut()
    table.refuse_hello(names.RESUME_WINDOW_EXPIRED)
    table.cut()
    assert "resume" not in table.connect(session_id="sess_2")["payload"]
    assert gaps(table) == [(4, None, "unknown_end")]


def test_a_resume_that_is_cut_off_again_and_again_is_bounded() -> None:
    table = live()
    table.replay(1, 3)
    table.cut()
    for _ in range(CUTS):
        assert "resume" in table.hello()["payload"]
        table.cut()
    for _ in range(3):  # whatever becomes of the fresh ones: the old session is not asked for
        assert "resume" not in table.hello()["payload"]
        table.cut()
    table.connect(session_id="sess_2")
    assert gaps(table) == [(4, None, "unknown_end")]
    assert table.causes == []


def test_s5_a_welcome_for_another_session_is_a_fresh_one_and_said_to_be() -> None:
    table = live()
    table.replay(1, 2)
    table.cut()
    table.connect(session_id="sess_2")
    assert gaps(table) == [(3, None, "unknown_end")]
    assert table.session.session_id == "sess_2"


# ------------------------------------------------------------------ refusals after the welcome


def test_s5_a_resume_that_is_refused_after_the_welcome_is_followed_by_a_fresh_session() -> None:
    table = live()
    table.replay(1, 2)
    table.ask(names.LIST_JOBS)
    table.resumed(2)
    table.error(names.RESUME_WINDOW_EXPIRED)
    assert table.causes == ["ResumeExpired"]
    assert table.of(actions.Refused) == []  # nobody's request is blamed for it
    table.cut()
    assert "resume" not in table.connect(session_id="sess_2")["payload"]
    assert gaps(table) == [(3, None, "unknown_end")]


def test_s5_so_it_is_when_the_code_says_less_and_nothing_was_asked() -> None:
    table = live()
    table.resumed(0)
    table.error(names.PERMISSION_DENIED)
    assert table.causes == ["ResumeExpired"]


def test_s5_so_it_is_when_the_error_names_the_hello() -> None:
    table = live()
    table.cut()
    hello = table.connect()
    payload = {"code": "INTERNAL_ERROR", "request_id": hello["id"]}
    table.hear({"type": names.SESSION_ERROR, "payload": payload})
    assert table.causes == ["ResumeExpired"]


def test_an_error_after_a_resume_may_be_the_answer_to_a_request() -> None:
    table = live()
    table.resumed(0)
    request = table.ask(names.LIST_JOBS)
    table.error(names.PERMISSION_DENIED)
    assert [refused.request for refused in table.of(actions.Refused)] == [request]
    assert table.causes == []


def test_on_a_first_link_such_an_error_is_no_refused_resume() -> None:
    table = live()
    table.error(names.PERMISSION_DENIED)
    assert table.causes == []
    assert "PERMISSION_DENIED" in table.of(actions.Report)[-1].message


# ------------------------------------------------------------------ errors that end a session


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        (names.HEARTBEAT_LOST, "HeartbeatLost"),
        (names.UNAUTHENTICATED, "Unauthenticated"),
    ],
)
@rule("accept-7")
def test_errors_that_end_the_session_are_not_blamed_on_a_request(code: str, cause: str) -> None:
    table = live()
    request = table.ask(names.LIST_JOBS)
    table.error(code)
    assert table.causes == [cause]
    assert request in table.session.requests
    assert table.of(actions.Refused) == []


@rule("accept-7")
def test_unless_they_name_it() -> None:
    table = live()
    request = table.ask(names.LIST_JOBS)
    payload = {"code": names.UNAUTHENTICATED, "request_id": request.ids[-1]}
    table.hear({"type": names.SESSION_ERROR, "payload": payload})
    assert [refused.request for refused in table.of(actions.Refused)] == [request]
    assert table.causes == []


@pytest.mark.parametrize("kind", [names.CLOSED, names.BYE])
@pytest.mark.parametrize(
    ("payload", "cause"),
    [
        ({}, "SessionClosed"),
        ({"reason": "shutdown"}, "SessionClosed"),
        ({"reason": "HEARTBEAT_LOST"}, "HeartbeatLost"),
        ({"code": "HEARTBEAT_LOST"}, "HeartbeatLost"),
    ],
)
@rule("accept-26")
def test_the_runtime_may_close_at_any_time_and_frames_may_follow(
    kind: str, payload: dict[str, str], cause: str
) -> None:
    table = live()
    table.event(1, JOB, 1)
    table.hear({"type": kind, "payload": payload})
    table.event(2, JOB, 2)
    table.hear({"type": kind, "payload": payload})
    assert table.causes == [cause]  # said once a link
    assert table.numbers == [1, 2]
    table.resumed(2)


def test_a_fresh_hello_that_is_refused_as_expired_is_sent_once_more_and_then_given_up() -> None:
    table = Strict(connect=False)
    for _ in range(2):
        assert "resume" not in table.hello()["payload"]
        table.error(names.RESUME_WINDOW_EXPIRED)
        table.cut()
    first, second = (effect.cause for effect in table.of(actions.Relink))
    assert isinstance(first, ResumeExpired)
    assert not first.permanent
    assert isinstance(second, ResumeExpired)
    assert second.permanent


def test_after_a_welcome_a_fresh_hello_may_be_refused_so_again() -> None:
    table = Strict(connect=False)
    for session_id in ("sess_1", "sess_2"):
        table.hello()
        table.error(names.RESUME_WINDOW_EXPIRED)
        table.cut()
        table.connect(session_id=session_id, resume_token=None)
        table.cut()
    assert [effect.cause.permanent for effect in table.of(actions.Relink)] == [False, False]
