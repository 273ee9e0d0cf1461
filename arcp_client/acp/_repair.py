"""Repairs lines that are not strict JSON, and reads the head of lines that cannot be repaired.

The typed decoders of `_connection.messages` and `_decode` reject a line for one invalid character.
`mend` replaces such characters, so that a second pass can decode the line. A line that is truncated
or nested too deeply cannot be decoded. From it, `head` still reads the id, which an error answer
needs, and the session.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Head", "head", "mend", "readings"]

_MOST = 500_000  # pieces of one line; lines with more pieces are not repaired

# Text between strings and numbers; a string, complete or truncated; numbers outside of strict JSON.
# Linear time: no backtracking.
_PIECE = re.compile(
    r'[^"NI-]++|"(?:[^"\\]++|\\.?)*+(?:"|\Z)'
    r"|-?(?:NaN|Infinity)|[NI-]",
    re.DOTALL,
)
# In a string: a surrogate pair, an escape, a stray backslash, a control character.
_IN_STRING = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r'|\\u[0-9a-fA-F]{4}|\\["\\/bfnrt]|\\|[\x00-\x1f]'
)
_HALF = re.compile(r"\\u[dD][89a-fA-F]..")


class _TooManyError(Exception):
    pass


def mend(line: bytes) -> bytes | None:
    """Replace invalid characters and constants, so that the line is strict JSON.

    Invalid UTF-8 and lone surrogates become U+FFFD, control characters become escapes, NaN and
    infinities become null. A byte order mark is removed.

    Returns:
        The repaired line; None if the line has too many pieces.
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


def readings(line: bytes) -> Iterator[bytes]:
    """The texts to try to decode: the line itself, then the repaired line.

    The repair takes 20 times as long as decoding, and happens only if the second text is asked for.
    """
    yield line
    mended = mend(line)
    if mended is not None:
        yield mended


# ------------------------------------------------------------------------------ heads


@dataclass(slots=True)
class Head:
    """The readable members of a message that cannot be parsed.

    Attributes:
        method: the method, without quotes; empty if it is unreadable, None if it is absent.
        id: the id as JSON; None if it is absent or appears twice.
        session: ``params.sessionId`` as a JSON string.
        has_params: whether it has params, as requests and notifications do.
    """

    method: bytes | None = None
    id: bytes | None = None
    session: bytes | None = None
    has_params: bool = False


# A string, complete or truncated; a run of brackets of one kind. Linear time: no backtracking.
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.?)*+(?:"|\Z)|[{\[]++|[}\]]++', re.DOTALL)
_COLON = re.compile(rb"\s*:\s*")
_SCALAR = re.compile(rb'(-?[0-9][0-9.eE+-]{0,63}|"(?:[^"\\\x00-\x1f]|\\.){0,512}+")\s*(?:[,}]|\Z)')
_CLOSING = bytes.maketrans(b"{[", b"}]")


def head(line: bytes) -> Head:
    """Read the members of the outermost object, up to the first invalid byte."""
    found = Head()
    if not line[:64].lstrip(b" \t\r\n\xef\xbb\xbf").startswith(b"{"):
        return found
    open_ = bytearray()
    member = b""  # the current member of the outermost object
    for count, token in enumerate(_TOKEN.finditer(line)):
        start, end = token.span()
        first = line[start]
        if first in b"{[":
            open_ += token[0]
        elif first in b"}]":
            closed = open_[start - end :]
            del open_[start - end :]
            if not open_ or closed[::-1].translate(_CLOSING) != token[0]:
                break  # the end, or the data does not continue as an object
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
