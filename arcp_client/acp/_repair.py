"""Repairs lines that are not strict JSON, and reads the head of lines that cannot be repaired.

The typed decoders of `_connection.messages` and `_decode` refuse a line for one invalid character.
`mend` replaces such characters, so that the decoders can read the line in a second pass. A line
that is cut off or nested too deeply still has a `Head`: the id that an error can be sent to, and
the session that an update belongs to.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["Head", "head", "mend"]

_MOST = 500_000  # pieces of one line; what has more is not read a second time

# What stands between strings and numbers; a string, also one that the line's end cuts off; and
# numbers that strict JSON does not have. Linear: no alternative can fail late.
_PIECE = re.compile(
    r'[^"NI-]++|"(?:[^"\\]++|\\.?)*+(?:"|\Z)'
    r"|-?(?:NaN|Infinity)|[NI-]",
    re.DOTALL,
)
# In a string: a pair of surrogates, an escape, a backslash that begins none, a control character.
_IN_STRING = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r'|\\u[0-9a-fA-F]{4}|\\["\\/bfnrt]|\\|[\x00-\x1f]'
)
_HALF = re.compile(r"\\u[dD][89a-fA-F]..")


class _TooManyError(Exception):
    pass


def mend(line: bytes) -> bytes | None:
    """The line as strict JSON, as far as single characters and constants are concerned.

    Bytes that are no UTF-8 and halves of surrogate pairs become U+FFFD, control characters become
    escapes, and NaN and infinities become null. A byte order mark vanishes.

    Returns:
        None if the line consists of too many pieces to be looked at.
    """
    count = 0

    def piece(match: re.Match[str]) -> str:
        nonlocal count
        count += 1
        if count > _MOST:
            raise _TooManyError
        text = match[0]
        if text[0] == '"':
            return _IN_STRING.sub(character, text)
        return "null" if text.lstrip("-") in ("NaN", "Infinity") else text

    def character(match: re.Match[str]) -> str:
        nonlocal count
        count += 1
        if count > _MOST:
            raise _TooManyError
        text = match[0]
        if text == "\\":
            return "\\\\"
        if len(text) == 1:
            return f"\\u{ord(text):04x}"
        return "\\ufffd" if _HALF.fullmatch(text) else text

    text = line.decode("utf-8", "replace").removeprefix("\ufeff")
    try:
        return _PIECE.sub(piece, text).encode()
    except _TooManyError:
        return None


# ------------------------------------------------------------------------------ heads


@dataclass(slots=True)
class Head:
    """What can be known of a message that cannot be parsed.

    Attributes:
        method: its method, without quotes; empty if that cannot be read, None if it has none.
        id: its id as JSON; None if it has none, or two.
        session: the JSON string of its ``params.sessionId``.
        has_params: it has params, as requests and notifications do.
    """

    method: bytes | None = None
    id: bytes | None = None
    session: bytes | None = None
    has_params: bool = False


# A string, ended or cut off; a run of brackets of one kind. Linear: no alternative can fail late.
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.?)*+(?:"|\Z)|[{\[]++|[}\]]++', re.DOTALL)
_COLON = re.compile(rb"\s*:\s*")
_SCALAR = re.compile(rb'(-?[0-9][0-9.eE+-]{0,63}|"(?:[^"\\\x00-\x1f]|\\.){0,512}+")\s*(?:[,}]|\Z)')
_CLOSING = bytes.maketrans(b"{[", b"}]")


def head(line: bytes) -> Head:
    """Read the members of the outermost object, up to where the line stops being an object."""
    found = Head()
    if not line[:64].lstrip(b" \t\r\n\xef\xbb\xbf").startswith(b"{"):
        return found
    open_ = bytearray()
    member = b""  # of the outermost object, in which the scanner is
    for count, token in enumerate(_TOKEN.finditer(line)):
        start, end = token.span()
        first = line[start]
        if first in b"{[":
            open_ += token[0]
        elif first in b"}]":
            closed = open_[start - end :]
            del open_[start - end :]
            if not open_ or closed[::-1].translate(_CLOSING) != token[0]:
                break  # the end, or not the object that it began as
        elif bytes(open_[:3]) in (b"{", b"{{") and (colon := _COLON.match(line, end)):
            name = token[0][1:-1]
            if len(open_) == 1:
                member = name
                found.has_params |= name == b"params"
            _member(found, member, name if len(open_) == 2 else b"", line, colon.end())
        if count > _MOST:
            break
    return found


def _member(found: Head, member: bytes, inner: bytes, line: bytes, at: int) -> None:
    value = _SCALAR.match(line, at)
    text = None if value is None else value[1]
    if inner:
        if (member, inner) == (b"params", b"sessionId") and text is not None and text[:1] == b'"':
            found.session = text
    elif member == b"id":
        found.id = text if found.id is None else None
    elif member == b"method":
        found.method = text[1:-1] if text is not None and text[:1] == b'"' else b""
