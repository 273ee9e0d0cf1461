"""The table of states: what is written down is what is done."""

from __future__ import annotations

import pytest

from arcp_client._protocol import states
from arcp_client._protocol.states import TRANSITIONS, State, drawn, following
from arcp_client.errors import LocalProtocolError

EVENTS = sorted({event for _, event in TRANSITIONS})


def test_the_docstring_shows_the_table_as_it_is() -> None:
    assert states.__doc__ is not None
    assert drawn() in states.__doc__


def test_the_docstring_names_every_event() -> None:
    assert states.__doc__ is not None
    assert [event for event in EVENTS if f"*{event}*" not in states.__doc__] == []


def test_every_state_can_be_reached_and_every_one_but_the_last_can_be_ended() -> None:
    assert {State.DOWN, *TRANSITIONS.values()} == set(State)
    endable = {state for state, event in TRANSITIONS if event == "end"}
    assert endable == set(State) - {State.ENDED}


def test_nothing_leads_out_of_the_end() -> None:
    assert {to for (state, _), to in TRANSITIONS.items() if state is State.ENDED} == {State.ENDED}


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("event", EVENTS)
def test_only_what_the_table_has_moves_a_session(state: State, event: str) -> None:
    if (state, event) in TRANSITIONS:
        assert following(state, event) is TRANSITIONS[state, event]
    else:
        with pytest.raises(LocalProtocolError, match=f"cannot {event} while {state.value}"):
            following(state, event)
