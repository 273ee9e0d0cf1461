"""Parses the envelope of JSON-RPC messages; params and results stay undecoded."""

from __future__ import annotations

from decimal import Decimal
from typing import Literal, TypeAlias

import msgspec

__all__ = ["Id", "Key", "RpcMessage", "decode_update", "key_of", "take_apart"]

Key: TypeAlias = "int | Decimal | str | None"


class Id(msgspec.Struct, frozen=True, gc=False):
    """The id of a request.

    Attributes:
        key: the form in which ids are compared: numbers compare by value, however they are written.
        raw: the id as the agent wrote it, for the answer.
    """

    key: Key
    raw: msgspec.Raw


class _UpdateParams(msgspec.Struct, rename="camel", gc=False):
    session_id: str


class _UpdateMessage(msgspec.Struct, gc=False):
    # Nearly every line is an update. Other messages are decoded in a second pass.
    method: Literal["session/update"]
    params: _UpdateParams
    id: msgspec.Raw = msgspec.Raw()


class RpcMessage(msgspec.Struct, gc=False):
    """The members of a message, each still as JSON; empty if it is missing."""

    method: msgspec.Raw = msgspec.Raw()
    id: msgspec.Raw = msgspec.Raw()
    params: msgspec.Raw = msgspec.Raw()
    result: msgspec.Raw = msgspec.Raw()
    error: msgspec.Raw = msgspec.Raw()


decode_update = msgspec.json.Decoder(_UpdateMessage).decode
_decode_message = msgspec.json.Decoder(RpcMessage).decode
_decode_text = msgspec.json.Decoder(str).decode


def take_apart(line: bytes) -> tuple[RpcMessage, Id | None, str | None]:
    """Parse a line to a message, its id and its method.

    Raises:
        MsgspecError, UnicodeDecodeError, RecursionError, ValueError: the line is not a message.
    """
    message = _decode_message(line)
    raw = bytes(message.id)
    id_ = Id(key_of(raw), msgspec.Raw(raw)) if raw else None
    return message, id_, _decode_text(message.method) if message.method else None


def key_of(raw: bytes) -> Key:
    """Return an id in comparable form.

    Raises:
        ValueError: the id is neither a number nor a string nor null.
    """
    if raw == b"null":
        return None
    if raw[:1] == b'"':
        return _decode_text(raw)
    if raw.isdigit() and len(raw) < 4000:
        return int(raw)
    if raw[:1] not in b"-0123456789":
        raise ValueError("neither a number nor a string")
    try:
        return Decimal(raw.decode())  # equal to the int of the same value, with the same hash
    except ArithmeticError:
        raise ValueError("a number out of range") from None
