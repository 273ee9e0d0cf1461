"""The states of a client's link, as values for ``match``."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Closed", "Connecting", "LinkState", "Live", "Reconnecting"]


class LinkState:
    """The state of the link to the runtime: one of the classes below."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Connecting(LinkState):
    """The client connects for the first time.

    Attributes:
        attempt: number of the attempt, from 1.
        cause: the failure of the last attempt; None at the first one.
    """

    attempt: int = 1
    cause: BaseException | None = None


@dataclass(frozen=True, slots=True)
class Live(LinkState):
    """The session is live. ``resumed``: it continues over a new link, and is no new session."""

    resumed: bool = False


@dataclass(frozen=True, slots=True)
class Reconnecting(LinkState):
    """The link was lost; the next attempt starts after ``delay`` seconds.

    Attributes:
        attempt: number of the next attempt. It counts from 1 again after a link that brought
            events or lasted.
        delay: seconds before the next attempt.
        cause: the failure of the link, or of the last attempt.
    """

    attempt: int
    delay: float
    cause: BaseException


@dataclass(frozen=True, slots=True)
class Closed(LinkState):
    """The client has ended. ``cause`` is None after `Client.close` or `Client.detach`."""

    cause: BaseException | None = None
