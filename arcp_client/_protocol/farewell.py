"""A wish to end in, the messages that the runtime understands out (§6.7); jobs run on."""

from __future__ import annotations

from typing import Final

from arcp_client._protocol.outbox import Outbox
from arcp_client._wire import dialect
from arcp_client._wire.dialect import Dialect
from arcp_client._wire.messages import Bye, Close

__all__ = ["Farewell"]

PATIENCE: Final = 5.0
"""Seconds that the runtime has to confirm."""


class Farewell:
    """Says goodbye in the form of a dialect.

    A runtime that is not known is told in both forms: the one that it does not know is refused, or
    passed over, and the other one follows.

    Args:
        out: the way out.
    """

    def __init__(self, out: Outbox) -> None:
        self._out = out
        self._other_at: float | None = None
        self._ends_at: float | None = None

    @property
    def deadline(self) -> float | None:
        """When `tick` must be called."""
        return self._ends_at if self._other_at is None else self._other_at

    def silent(self, spoken: Dialect) -> bool:
        """Whether nothing may be said, since any message would cancel the jobs."""
        return spoken.close_with == "drop"

    def say(self, spoken: Dialect, now: float, *, patience: float) -> bool:
        """Tell the runtime; False if it will not answer.

        Args:
            spoken: how it speaks.
            now: the time.
            patience: seconds until the second form follows the first.
        """
        form = spoken.close_with
        self._ends_at = now + PATIENCE
        if form == "close":
            self._close(now)
            return True
        self._out.control(dialect.BYE, Bye().wire(), now)
        if form == "both":
            self._other_at = now + patience
        return form == "both"

    def refused(self, now: float) -> bool:
        """An error came; True if it was about the first form, and the other one follows."""
        if self._other_at is None:
            return False
        self._close(now)
        return True

    def tick(self, now: float) -> bool:
        """Time has passed; True if it is over without an answer."""
        if self._other_at is not None and now >= self._other_at:
            self._close(now)
        return self._ends_at is not None and now >= self._ends_at

    def over(self) -> None:
        """It is over."""
        self._other_at = self._ends_at = None

    def _close(self, now: float) -> None:
        self._other_at = None
        self._out.control(dialect.CLOSE, Close().wire(), now)
