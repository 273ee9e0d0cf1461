"""The states of a session, and the events that move it, as one table.

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

*greet*: a link is up and the hello is sent, with a resume block if a session can be resumed.
*welcome*: the runtime opened or resumed the session (§6.2, §6.3). *lost*: the link has ended;
requests and jobs wait for the next one. *close*: `session.close` is sent (§6.7). *closed*: the
runtime answered, or no answer is expected. *end*: the session is over at once. Nothing else changes
the state.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

from arcp_client.errors import LocalProtocolError

__all__ = ["TRANSITIONS", "State", "drawn", "following"]


class State(enum.Enum):
    """Where a session stands."""

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
    """The table as text, as it stands in this module's docstring."""
    rows = [("state", "on", "next")]
    rows += [(state.name, event, to.name) for (state, event), to in TRANSITIONS.items()]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    rule = " ".join("=" * width for width in widths)
    lines = [
        " ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return "\n".join([rule, lines[0], rule, *lines[1:], rule])
