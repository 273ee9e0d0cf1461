"""What a `Session` asks its surroundings to do, in the order in which it must be done.

Public events (`arcp_client.events.Event`) stand in the same list: delivering one is the most
frequent effect of all, so it has no wrapper.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from pydantic import SecretStr

from arcp_client._wire.replies import Accepted, Subscribed, Welcome
from arcp_client.errors import ArcpError
from arcp_client.events import Event

if TYPE_CHECKING:
    from arcp_client._protocol.requests import Request

__all__ = [
    "Answered",
    "Effect",
    "Ended",
    "JobGone",
    "JobKnown",
    "Opened",
    "Refused",
    "Relink",
    "Report",
    "Rotated",
    "Send",
]


class Send(msgspec.Struct):
    """Put one frame on the link; ``request`` is what it asks for, if anything."""

    data: bytes
    request: Request | None = None


class Opened(msgspec.Struct):
    """The welcome came: the session is live.

    Attributes:
        welcome: what was agreed.
        resumed: the session went on; False for a new one.
    """

    welcome: Welcome
    resumed: bool


class Relink(msgspec.Struct):
    """This link is of no more use: drop it and connect again."""

    cause: ArcpError


class Ended(msgspec.Struct):
    """The session is over. ``cause`` is None after a close that this side asked for."""

    cause: ArcpError | None


class Answered(msgspec.Struct):
    """A request got its answer."""

    request: Request
    value: Any


class Refused(msgspec.Struct):
    """A request ended without one."""

    request: Request
    error: ArcpError


class JobKnown(msgspec.Struct):
    """The runtime told of a job: one that was submitted, watched, or delegated to.

    Stands in the list before the job's answer and before its later events.

    Attributes:
        mine: it answers a submit of this client.
        request: what it answers.
        elsewhere: the acceptance was first given to another session.
    """

    job: Accepted | Subscribed
    mine: bool
    request: Request | None = None
    elsewhere: bool = False


class JobGone(msgspec.Struct):
    """The runtime no longer knows an open job, or not its outcome; ``status`` is how it ended."""

    job_id: str
    error: ArcpError
    status: str | None = None


class Rotated(msgspec.Struct):
    """A job's credential has a new value (§9.8)."""

    job_id: str
    credential_id: str
    value: SecretStr


class Report(msgspec.Struct):
    """Something that a person may want to know; it changed nothing."""

    message: str
    error: ArcpError | None = None


Effect = (
    Event
    | Send
    | Opened
    | Relink
    | Ended
    | Answered
    | Refused
    | JobGone
    | JobKnown
    | Rotated
    | Report
)
