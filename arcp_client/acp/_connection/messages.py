"""Parses JSON-RPC messages as far as the connection needs, without reading what they carry."""

from __future__ import annotations

from decimal import Decimal
from typing import Literal, TypeAlias

import msgspec

__all__ = ["Id", "Key", "RpcMessage", "decode_update", "key_of", "take_apart"]

Key: TypeAlias = "int | Decimal | str | None"


class Id(msgspec.Struct, frozen=True, gc=False):
    """The id of a request.

    Attributes:
        key: compared with other ids: a number as a number, however it is written.
        raw: as the agent wrote it, for the answer.
    """

    key: Key
    raw: msgspec.Raw


class _UpdateParams(msgspec.Struct, rename="camel", gc=False):
    session_id: str


class _UpdateMessage(msgspec.Struct, gc=False):
    # What nearly every line is. Every other message is decoded in a second pass.
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
    """A message, its id and its method.

    Raises:
        MsgspecError, UnicodeDecodeError, RecursionError, ValueError: it is no message.
    """
    message = _decode_message(line)
    raw = bytes(message.id)
    id_ = Id(key_of(raw), msgspec.Raw(raw)) if raw else None
    return message, id_, _decode_text(message.method) if message.method else None


def key_of(raw: bytes) -> Key:
    """An id as it is compared.

    Raises:
        ValueError: it is neither a number nor a string nor null.
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
        return Decimal(raw.decode())  # equal to the int of the same value, and found as it
    except ArithmeticError:
        raise ValueError("a number beyond all bounds") from None
