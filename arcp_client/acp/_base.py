"""Base classes of the generated types: encoding, unknown variants, and the origin of an update."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, NamedTuple, cast

import msgspec

from arcp_client.acp._repair import mend

__all__ = ["NOWHERE", "Base", "Gap", "Origin", "Unknown", "UnknownUpdate", "Update"]


class Base(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False):
    """A value of the protocol. Immutable; ``camelCase`` on the wire; what is None is not sent."""

    unstable: ClassVar[bool] = False
    """Whether only the unstable schema has it."""


class Unknown(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A variant that this package does not know, kept as it came.

    Attributes:
        kind: the value of the tag on the wire, such as an unknown ``sessionUpdate`` or ``type``.
        raw: the whole value.
    """

    kind: str
    raw: Any


class Origin(NamedTuple):
    """Where in its session an update came.

    Attributes:
        session_id: the session.
        turn: which prompt of this session was being answered, counted from 1; None outside a turn.
        replay: it is history that ``session/load`` (or ``session/resume``) sent.
    """

    session_id: str
    turn: int | None
    replay: bool


_decode = msgspec.json.Decoder().decode

NOWHERE = Origin("", None, False)


class Update(Base, frozen=True, kw_only=True, dict=True, gc=True):
    """Something that an agent reports about a session. Every update also has these properties:"""

    @property
    def origin(self) -> Origin:
        """Its position in its session; empty for an update that was constructed by hand."""
        return cast(Origin, self.__dict__["at"][1]) if "at" in self.__dict__ else NOWHERE

    @property
    def turn(self) -> int | None:
        """The turn that it belongs to, counted from 1; None outside a turn."""
        return self.origin.turn

    @property
    def replay(self) -> bool:
        """Whether it is history, sent while the session was loaded."""
        return self.origin.replay

    @property
    def notification(self) -> dict[str, Any]:
        """The whole notification's ``params`` as they came, with all that has no field here."""
        if "at" not in self.__dict__:
            return {}
        line: bytes = self.__dict__["at"][0]
        for text in (line, mend(line) or line):
            try:
                return cast("dict[str, Any]", _decode(text)["params"])
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                continue  # a character, a number or a depth beyond all bounds
        return {}

    @property
    def raw(self) -> Any:
        """The update as it came, with members that have no field here."""
        return self.notification.get("update")


class UnknownUpdate(Update, frozen=True, kw_only=True):
    """An update that this package does not know, or not in this shape; see ``raw``.

    Attributes:
        kind: its ``sessionUpdate``; empty if it has none.
    """

    kind: str = ""


class Gap(Update, frozen=True, kw_only=True):
    """Stands for updates that an iterator could not keep. Handlers never receive one.

    Attributes:
        missed: how many updates are missing here.
        reason: ``"not_retained"`` if they came before the iterator and are forgotten,
            ``"overflow"`` if it was full for too long.
    """

    missed: int
    reason: Literal["not_retained", "overflow"]
