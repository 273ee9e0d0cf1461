"""Decodes JSON into typed values and tolerates deviations from JSON and from the schema.

msgspec decodes in one pass. If the text is not strict JSON, `mend` repairs it, and it is decoded
again. If a value has an unexpected shape, `tolerant` converts it as far as possible:

- An unknown variant becomes an ``Unknown…``.
- A field with an invalid value gets its default.
- An invalid list item is left out.

Only a missing or invalid required field makes a value undecodable.
"""

from __future__ import annotations

import functools
import logging
from typing import Any, TypeVar

import msgspec
from msgspec import inspect as info

from arcp_client.acp import schema
from arcp_client.acp._base import Base, Origin, Unknown, Update
from arcp_client.acp._repair import mend

__all__ = ["REFUSED", "Misshapen", "as_json", "as_value", "decode", "update_of"]

T = TypeVar("T", bound=Base)

_log = logging.getLogger("arcp_client.acp")


class Misshapen(ValueError):
    """A value lacks the required shape; the message says where."""


class _Notification(msgspec.Struct, gc=False):
    params: schema.SessionNotification


_notification = msgspec.json.Decoder(_Notification)
as_json = msgspec.json.Encoder().encode
_as_value = msgspec.json.Decoder().decode

REFUSED = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""The exceptions of msgspec for an undecodable line."""


def as_value(data: bytes) -> Any:
    """Parse a JSON value, also from text that is not strict JSON (see `mend`).

    Raises:
        Misshapen: the text is not JSON, or nested too deeply.
    """
    try:
        return _as_value(data)
    except REFUSED as error:
        mended = mend(data)
        try:
            return _as_value(data if mended is None else mended)
        except REFUSED:
            raise Misshapen(f"unreadable JSON: {str(error) or 'nested too deeply'}") from None


def update_of(at: tuple[bytes, Origin]) -> Update:
    """Decode the update of a ``session/update`` line and attach its origin. Never raises."""
    try:
        update: Any = _notification.decode(at[0]).params.update
    except REFUSED:
        line = mend(at[0]) or at[0]
        at = (line, at[1])
        try:
            update = _notification.decode(line).params.update
        except REFUSED:
            update = _odd_update(line)
    update.__dict__["at"] = at
    return update  # type: ignore[no-any-return]


def _odd_update(line: bytes) -> Any:
    try:
        value = _as_value(line)["params"]["update"]
        kind = value.get("sessionUpdate")
        if isinstance(kind, str) and kind in _update_kinds():
            return tolerant(_update_kinds()[kind], value)
    except Misshapen as error:
        _log.warning("an update has the wrong shape for its kind and is kept as Unknown: %s", error)
    except (*REFUSED, LookupError, TypeError, AttributeError):
        kind = None
        _log.warning("a session/update without an update is kept as Unknown")
    return schema.UnknownSessionUpdate(kind=kind if isinstance(kind, str) else "")


@functools.cache
def _update_kinds() -> dict[str, info.Type]:
    return {
        str(info.type_info(cls).tag): info.type_info(cls)  # type: ignore[attr-defined]
        for cls in schema.UPDATES
    }


def decode(type_: type[T], data: bytes) -> T:
    """Decode JSON into a value of ``type_``. Some agents send ``null`` for an empty object.

    Raises:
        Misshapen: a required part is missing or invalid.
    """
    if data == b"null" or not data:
        data = b"{}"
    try:
        return msgspec.json.decode(data, type=type_)
    except REFUSED:
        return tolerant(info.type_info(type_), as_value(data))  # type: ignore[no-any-return]


def tolerant(kind: info.Type, value: Any, where: str = "$") -> Any:
    """Convert a JSON value and leave out what does not fit its type.

    Raises:
        Misshapen: a required part is missing or invalid.
    """
    if isinstance(kind, info.StructType):
        return _struct(kind, value, where)
    if isinstance(kind, info.UnionType):
        return _union(kind, value, where)
    if isinstance(kind, info.ListType):
        return _list(kind, value, where)
    if isinstance(kind, info.DictType):
        if not isinstance(value, dict):
            raise Misshapen(f"an object is expected at {where}")
        return {k: tolerant(kind.value_type, v, f"{where}.{k}") for k, v in value.items()}
    if isinstance(kind, info.AnyType):
        return value
    if isinstance(kind, info.IntType) and isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(kind, info.IntType) and isinstance(value, str) and value.isdecimal():
        return int(value)
    if isinstance(kind, info.FloatType) and type(value) is int:
        return float(value)
    expected = _SCALARS.get(type(kind))
    if expected is None or type(value) is not expected:
        raise Misshapen(f"{type(kind).__name__[:-4].lower()} is expected at {where}")
    return value


_SCALARS: dict[type[info.Type], type] = {
    info.StrType: str,
    info.IntType: int,
    info.FloatType: float,
    info.BoolType: bool,
    info.NoneType: type(None),
}


def _struct(kind: info.StructType, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise Misshapen(f"an object is expected at {where}")
    found: dict[str, Any] = {}
    for field in kind.fields:
        if field.encode_name not in value:
            if field.required:
                raise Misshapen(f"{field.encode_name} is missing at {where}")
            continue
        try:
            found[field.name] = tolerant(
                field.type, value[field.encode_name], f"{where}.{field.encode_name}"
            )
        except Misshapen as error:
            if field.required:
                raise
            _log.warning("left out: %s", error)
    return kind.cls(**found)


def _list(kind: info.ListType, value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise Misshapen(f"an array is expected at {where}")
    items = []
    for index, item in enumerate(value):
        try:
            items.append(tolerant(kind.item_type, item, f"{where}[{index}]"))
        except Misshapen as error:
            _log.warning("left out: %s", error)
    return items


def _union(kind: info.UnionType, value: Any, where: str) -> Any:
    structs = [part for part in kind.types if isinstance(part, info.StructType)]
    if isinstance(value, dict) and structs:
        return _variant(structs, value, where)
    problem = Misshapen(f"nothing that is expected at {where}")
    for part in kind.types:
        try:
            return tolerant(part, value, where)
        except Misshapen as error:
            problem = error
    raise problem


def _variant(structs: list[info.StructType], value: dict[str, Any], where: str) -> Any:
    unknown = next((part.cls for part in structs if issubclass(part.cls, Unknown)), None)
    if unknown is None:
        return tolerant(structs[0], value, where)
    name = structs[0].tag_field
    tag = value.get(name) if name is not None else None
    if tag is None:
        tag = schema.UNTAGGED.get(_union_of(unknown))
    for part in structs:
        if part.tag == tag:
            try:
                return _struct(part, value, where)
            except Misshapen as error:
                _log.warning("kept as Unknown: %s", error)
    return unknown(kind=tag if isinstance(tag, str) else "", raw=value)


def _union_of(unknown: type[Any]) -> str:
    return unknown.__name__.removeprefix("Unknown").removeprefix("Other")
