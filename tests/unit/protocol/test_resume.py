"""S5: what is presented to resume a session, and when it is given up (§6.3)."""

from __future__ import annotations

import pytest
from pydantic import SecretStr

from arcp_client._dialects import DIALECTS
from arcp_client._protocol.peer import Next, Peer
from arcp_client._protocol.resume import CUTS, REFUSALS, ResumeState
from arcp_client._protocol.session import Session
from arcp_client._wire import names
from arcp_client._wire.replies import ErrorReply, Welcome
from arcp_client.models import SessionInfo
from tests.interop.rules import rule

BEARER = SecretStr("bearer")


def peer(name: str) -> Peer:
    """A runtime of a dialect, of which only the answers to refusals matter here."""
    return DIALECTS[name](Session().view)


STRICT = peer("arcp-client")


def welcome(
    session: str = "s1", token: str | None = "t1", *, window: float | None = 600
) -> Welcome:
    secret = None if token is None else SecretStr(token)
    return Welcome(SessionInfo(id=session, resume_window=window), secret)


def refusal(code: str, *, retryable: bool = False) -> ErrorReply:
    return ErrorReply(code, "", retryable, None)


def live(**options: int) -> ResumeState:
    state = ResumeState(**options)
    assert state.welcomed(welcome()) is False
    state.left(100.0)
    return state


def presented(state: ResumeState, cursor: int = 7, bearer: SecretStr = BEARER) -> tuple | None:
    block = state.block(cursor, bearer)
    if block is None:
        return None
    return block.session_id, block.resume_token.get_secret_value(), block.last_event_seq


def test_s5_the_first_hello_has_nothing_to_resume() -> None:
    assert presented(ResumeState()) is None


def test_s5_the_newest_token_and_the_cursor_are_presented_also_before_the_first_event() -> None:
    state = live()
    assert presented(state, 0) == ("s1", "t1", 0)
    assert state.welcomed(welcome(token="t2")) is True
    assert presented(state, 9) == ("s1", "t2", 9)


@rule("accept-22")
def test_s5_a_token_that_is_not_rotated_counts_on() -> None:
    state = live()
    state.block(1, BEARER)
    assert state.welcomed(welcome(token=None)) is True
    assert presented(state, 2) == ("s1", "t1", 2)


def test_s5_another_session_in_the_welcome_is_a_fresh_one() -> None:
    state = live()
    state.block(1, BEARER)
    assert state.welcomed(welcome("s2", None)) is False
    assert not state.possible


def test_s5_an_expired_window_means_a_fresh_session() -> None:
    state = live()
    state.block(1, BEARER)
    assert state.refused(refusal(names.RESUME_WINDOW_EXPIRED), STRICT) is Next.FRESH
    state.forget()
    assert (state.session_id, state.token, presented(state)) == (None, None, None)


@pytest.mark.parametrize(
    ("code", "name", "retryable"),
    [
        (names.PERMISSION_DENIED, "python", False),
        (names.RESUME_WINDOW_EXPIRED, "go", False),
        (names.RESUME_WINDOW_EXPIRED, "java", False),
    ],
)
@rule("accept-24")
def test_s5_what_may_pass_is_tried_again_a_few_times(code: str, name: str, retryable: bool) -> None:
    """The runtime may not have noticed yet that the old link died."""
    state = live()
    steps = []
    for _ in range(REFUSALS):
        assert presented(state) == ("s1", "t1", 7)
        steps.append(state.refused(refusal(code, retryable=retryable), peer(name)))
        state.left(101.0)
    assert steps == [Next.AGAIN] * (REFUSALS - 1) + [Next.FRESH]


def test_s5_a_welcome_starts_the_count_anew() -> None:
    state = live(refusals=2)
    for _ in range(5):
        state.block(1, BEARER)
        assert state.refused(refusal(names.PERMISSION_DENIED), STRICT) is Next.AGAIN
        state.block(1, BEARER)
        assert state.welcomed(welcome()) is True


@rule("accept-23")
def test_s5_a_caught_up_resume_is_asked_for_one_event_earlier_once() -> None:
    state, typescript = live(), peer("typescript")
    expired = refusal(names.RESUME_WINDOW_EXPIRED)
    assert presented(state, 7) == ("s1", "t1", 7)
    assert state.refused(expired, typescript) is Next.AGAIN
    assert presented(state, 7) == ("s1", "t1", 6)
    assert state.refused(expired, typescript) is Next.FRESH


@rule("accept-23")
def test_s5_one_event_earlier_than_none_is_none() -> None:
    state = live()
    state.block(0, BEARER)
    state.refused(refusal(names.RESUME_WINDOW_EXPIRED), peer("typescript"))
    assert presented(state, 0) == ("s1", "t1", 0)


def test_s5_a_refused_bearer_token_gives_way_to_another_one() -> None:
    """A token that ran out while the link was down must not cost the session."""
    state = live()
    state.block(7, BEARER)
    assert state.refused(refusal(names.UNAUTHENTICATED), STRICT) is Next.AGAIN
    state.left(101.0)
    assert presented(state, bearer=SecretStr("newer")) == ("s1", "t1", 7)
    assert state.refused(refusal(names.UNAUTHENTICATED), STRICT) is Next.FRESH


def test_s5_with_the_same_bearer_token_the_resume_token_may_be_meant() -> None:
    state = live()
    state.block(7, BEARER)
    state.refused(refusal(names.UNAUTHENTICATED), STRICT)
    state.left(101.0)
    assert presented(state) is None
    assert state.refused(refusal(names.UNAUTHENTICATED), STRICT) is Next.GIVE_UP


def test_a_refused_first_hello_has_nothing_to_fall_back_on() -> None:
    state = ResumeState()
    state.block(0, BEARER)
    assert state.refused(refusal(names.PERMISSION_DENIED), None) is Next.GIVE_UP


def test_a_resume_that_is_cut_off_again_and_again_is_given_up_once() -> None:
    """The token may have been rotated and never delivered: nobody can know."""
    state = live()
    tries = 0
    while presented(state) is not None:
        tries += 1
        state.left(100.0 + tries)
    assert tries == CUTS
    assert not state.possible
    state.left(200.0)
    assert presented(state) is None


def test_s5_a_session_outlives_a_runtime_that_cannot_answer_for_almost_a_minute() -> None:
    """While its database fails over, for example."""
    state = live()
    steps = []
    for _ in range(CUTS):
        assert presented(state) == ("s1", "t1", 7)
        steps.append(state.refused(refusal(names.INTERNAL_ERROR, retryable=True), STRICT))
        state.left(101.0)
    assert steps == [Next.AGAIN] * (CUTS - 1) + [Next.FRESH]


def test_once_the_window_has_passed_one_cut_is_enough() -> None:
    state = live()
    state.block(7, BEARER)
    state.left(701.0)
    assert not state.possible


def test_without_a_stated_window_only_the_cuts_count() -> None:
    state = ResumeState()
    state.welcomed(welcome(window=None))
    state.left(0.0)
    for _ in range(CUTS - 1):
        state.block(7, BEARER)
        state.left(1e6)
    assert state.possible


def test_a_link_that_was_never_greeted_on_says_nothing_about_the_session() -> None:
    state = live()
    for attempt in range(1000):
        state.left(100.0 + attempt)
    assert state.possible
