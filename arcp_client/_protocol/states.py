"""The states of a session, and what moves it from one state to the next, as one table.

A session is DOWN without a link, GREETING from the hello to the welcome, LIVE after the welcome,
CLOSING while the runtime's answer to a close is awaited, and ENDED for good.

======== ======= ========
state    on      next
======== ======= ========
DOWN     greet   GREETING
DOWN     lost    DOWN
DOWN     end     ENDED
GREETING welcome LIVE
GREETING lost    DOWN
GREETING end     ENDED
LIVE     lost    DOWN
LIVE     close   CLOSING
LIVE     end     ENDED
CLOSING  closed  ENDED
CLOSING  lost    ENDED
CLOSING  end     ENDED
ENDED    lost    ENDED
======== ======= ========

*greet*: a link is up, and the client sends the hello, with a resume block if it can resume a
session. *welcome*: the runtime opened or resumed the session (§6.2, §6.3). *lost*: the link has
ended; requests and jobs wait for the next link. *close*: the client sends `session.close` (§6.7).
*closed*: the runtime has answered, or no answer is expected. *end*: this client, or an error, ends
the session at once. Nothing else changes the state.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

from arcp_client.errors import LocalProtocolError

__all__ = ["TRANSITIONS", "State", "drawn", "following"]


class State(enum.Enum):
    """The state of a session."""

    DOWN = "down"
    GREETING = "greeting"
    LIVE = "live"
    CLOSING = "closing"
    ENDED = "ended"


TRANSITIONS: Final[Mapping[tuple[State, str], State]] = {
    (State.DOWN, "greet"): State.GREETING,
    (State.DOWN, "lost"): State.DOWN,
    (State.DOWN, "end"): State.ENDED,
    (State.GREETING, "welcome"): State.LIVE,
    (State.GREETING, "lost"): State.DOWN,
    (State.GREETING, "end"): State.ENDED,
    (State.LIVE, "lost"): State.DOWN,
    (State.LIVE, "close"): State.CLOSING,
    (State.LIVE, "end"): State.ENDED,
    (State.CLOSING, "closed"): State.ENDED,
    (State.CLOSING, "lost"): State.ENDED,
    (State.CLOSING, "end"): State.ENDED,
    (State.ENDED, "lost"): State.ENDED,
}


def following(state: State, event: str) -> State:
    """The next state.

    Raises:
        LocalProtocolError: this cannot happen in that state.
    """
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise LocalProtocolError(f"cannot {event} while {state.value}") from None


def drawn() -> str:
    """The table as text, in the form of this module's docstring."""
    rows = [("state", "on", "next")]
    rows += [(state.name, event, to.name) for (state, event), to in TRANSITIONS.items()]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    rule = " ".join("=" * width for width in widths)
    lines = [
        " ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return "\n".join([rule, lines[0], rule, *lines[1:], rule])
