"""States of a client's link, as values to match on."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Closed", "Connecting", "LinkState", "Live", "Reconnecting"]


class LinkState:
    """Where the link to the runtime stands: one of the classes below."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Connecting(LinkState):
    """The first link is being made.

    Attributes:
        attempt: counts from 1.
        cause: why the last attempt failed; None at the first one.
    """

    attempt: int = 1
    cause: BaseException | None = None


@dataclass(frozen=True, slots=True)
class Live(LinkState):
    """The session is live. ``resumed`` is True if it went on after a drop or a restart."""

    resumed: bool = False


@dataclass(frozen=True, slots=True)
class Reconnecting(LinkState):
    """The link is gone; the next attempt comes after ``delay`` seconds.

    Attributes:
        attempt: counts from 1 since the link was last stable.
        delay: seconds to wait before it.
        cause: why the link, or the last attempt, ended.
    """

    attempt: int
    delay: float
    cause: BaseException


@dataclass(frozen=True, slots=True)
class Closed(LinkState):
    """It is over. ``cause`` is None after a close or detach that the user asked for."""

    cause: BaseException | None = None
