"""Base classes of the generated types: encoding, unknown variants, and the origin of an update."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, NamedTuple, Protocol, cast

import msgspec

from arcp_client import _digits as digits
from arcp_client.acp._repair import mend, readings

__all__ = [
    "NOWHERE",
    "Again",
    "Base",
    "Gap",
    "Origin",
    "Unknown",
    "UnknownUpdate",
    "Update",
    "exact_raw",
]


class Base(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False):
    """A value of the protocol: immutable, ``camelCase`` on the wire, None is not sent."""

    unstable: ClassVar[bool] = False
    """Whether the class exists only in the unstable schema."""


class Unknown(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A variant that this package does not know, kept unchanged.

    Attributes:
        kind: the tag on the wire: the value of ``sessionUpdate`` or ``type``.
        raw: the whole value.
    """

    kind: str
    raw: Any


class Origin(NamedTuple):
    """The position of an update in its session.

    Attributes:
        session_id: the session.
        turn: the number of the prompt that was being answered, from 1; None outside a turn.
        replay: whether it is history, sent in answer to ``session/load`` or ``session/resume``.
    """

    session_id: str
    turn: int | None
    replay: bool


class Again(Protocol):
    """Reads an update from its line once more, in the same way."""

    def __call__(self, line: bytes, origin: Origin) -> Update:
        """Read it."""


_decode = msgspec.json.Decoder().decode

NOWHERE = Origin("", None, False)


class Update(Base, frozen=True, kw_only=True, dict=True, gc=True):
    """A report of an agent about a session. Every update also has these properties:"""

    @property
    def origin(self) -> Origin:
        """The update's position in its session; empty if user code constructed the update."""
        return cast(Origin, self.__dict__["at"][1]) if "at" in self.__dict__ else NOWHERE

    @property
    def turn(self) -> int | None:
        """The number of its turn, from 1; None outside a turn."""
        return self.origin.turn

    @property
    def replay(self) -> bool:
        """Whether it is history, sent while the session was loaded."""
        return self.origin.replay

    @property
    def notification(self) -> dict[str, Any]:
        """The whole ``params`` of the notification, including members that have no field here."""
        if "at" not in self.__dict__:
            return {}
        line: bytes = self.__dict__["at"][0]
        for text in readings(line):
            try:
                return cast("dict[str, Any]", _decode(text)["params"])
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                continue  # invalid characters, a number out of range or too deep nesting
        return {}

    @property
    def raw(self) -> Any:
        """The update as received, including members that have no field here."""
        return self.notification.get("update")


def exact_raw(update: Update) -> Any:
    """`Update.raw`, with `Digits` for numbers that ``float`` changed (W1)."""
    raw = update.raw
    line: bytes = update.__dict__["at"][0] if "at" in update.__dict__ else b""
    if not digits.has_odd_numbers(line):
        return raw
    try:
        told = digits.loads(mend(line) or line)["params"]["update"]
        return told if digits.same(raw, told) else raw
    except (ValueError, LookupError, TypeError, RecursionError):
        return raw


class UnknownUpdate(Update, frozen=True, kw_only=True):
    """An update of an unknown kind or of an unexpected shape; see ``raw``.

    Attributes:
        kind: its ``sessionUpdate``; empty if it has none.
    """

    kind: str = ""


class Gap(Update, frozen=True, kw_only=True):
    """Stands for updates that an iterator did not keep. Handlers never receive one.

    Attributes:
        missed: the number of missing updates.
        reason: ``"not_retained"`` if they preceded the iterator and are no longer kept,
            ``"overflow"`` if the iterator was full for too long.
    """

    missed: int
    reason: Literal["not_retained", "overflow"]
