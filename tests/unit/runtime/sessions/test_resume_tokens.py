"""The tokens that resume a session."""

from __future__ import annotations

from arcp_client.runtime._sessions.resume_tokens import ResumeTokens, token_hash


def test_a_late_resume_of_a_lost_link_keeps_the_token_that_the_client_has_read_since() -> None:
    tokens = ResumeTokens()
    first = tokens.rotate()
    second = tokens.rotate(first)  # its welcome arrives
    third = tokens.rotate(first)  # over a link that was lost before
    assert [tokens.valid(each) for each in (first, second, third)] == [True, True, True]
    fourth = tokens.rotate(second)
    assert tokens.settle(token_hash(fourth))
    assert [tokens.valid(each) for each in (first, second, third, fourth)] == [False] * 3 + [True]


def test_the_tokens_of_lost_welcomes_are_bounded() -> None:
    tokens = ResumeTokens()
    first = tokens.rotate()
    for _ in range(10):
        last = tokens.rotate(first)
        assert tokens.valid(first)
        assert tokens.valid(last)
        assert len(tokens.hashes) <= 4


def test_a_token_that_was_not_sent_is_withdrawn() -> None:
    tokens = ResumeTokens()
    first = tokens.rotate()
    second = tokens.rotate(first)
    tokens.withdraw(second)
    assert [tokens.valid(each) for each in (first, second)] == [True, False]
    assert not tokens.settle(token_hash(first))


def test_a_frame_confirms_the_token_of_its_own_link_only() -> None:
    tokens = ResumeTokens()
    first = tokens.rotate()
    second = tokens.rotate(first)
    third = tokens.rotate(first)  # its welcome is not sent yet
    assert tokens.settle(token_hash(second))
    assert [tokens.valid(each) for each in (first, second, third)] == [False, True, True]
    assert not tokens.settle(token_hash(second))
