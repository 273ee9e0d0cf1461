"""An unreadable frame in, out what can still be known of it: its number, and a line for the log.

What a frame that cannot be parsed holds can only be guessed. So the log is shown nothing but what
is known to be harmless, instead of hiding what is known to be secret.
"""

from __future__ import annotations

import json
import re
from typing import Any

__all__ = ["head_of", "header_of"]

# A string, ended or cut off; a run of brackets of one kind. Linear: no alternative can fail late.
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.?)*+(?:"|\Z)|[{\[]++|[}\]]++', re.DOTALL)
_VALUE = re.compile(rb'\s*:\s*([1-9][0-9]{0,18}|"(?:[^"\\]|\\.)*+")\s*[,}]', re.DOTALL)
_NAMES = {b'"event_seq"': "event_seq", b'"id"': "id", b'"job_id"': "job_id"}
_CLOSING = bytes.maketrans(b"{[", b"}]")
_MAX_TOKENS = 250_000


def header_of(data: bytes) -> dict[str, Any]:
    """What can be read of the envelope of a frame that is no JSON as a whole.

    A frame with its number counts as received (§8.3), so that a body which nobody will ever be
    able to read costs one event and no resume.
    """
    found: dict[str, Any] = {}
    open_ = bytearray()
    for count, token in enumerate(_TOKEN.finditer(data)):
        start, end = token.span()
        first = data[start]
        if first in b"{[":
            open_ += token[0]
        elif first in b"}]":
            closed = open_[start - end :]
            del open_[start - end :]
            if not open_ or closed[::-1].translate(_CLOSING) != token[0]:
                break  # the end, or not the frame that it began as
        elif open_ == b"{":
            name = _NAMES.get(data[start:end])
            value = _VALUE.match(data, end) if name else None
            if name and value:
                # Named twice in a frame that is broken: nobody knows which one holds.
                found[name] = None if name in found else _read_scalar(value[1])
        if count > _MAX_TOKENS:
            break
    return found


def _read_scalar(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


# ------------------------------------------------------------------------------ heads

_HEAD = 160
_WITHHELD = "<withheld: may hold a secret>"
_NAMED = frozenset({"arcp", "id", "type", "session_id", "job_id", "kind", "ts", "level", "phase"})
_NAMES_ONLY = frozenset({"event_seq", "trace_id", "payload", "body", "message", "auth", "token"})
_PIECE = re.compile(r'"((?:[^"\\]|\\.)*)"?(\s*:)?|[^\s{}\[\]:,"]+', re.DOTALL)
_PLAIN = re.compile(r"[\w.:@+-]{1,64}")
_BARE = re.compile(r"true|false|null|NaN|-?Infinity|-?[0-9][0-9.eE+-]{0,23}")
_OPAQUE = re.compile(r"(?=\S*[0-9])\S{6,}|[\w+/=.~-]{16,}")
_TELLTALE = re.compile(r"token|secret|auth|bearer|credential|passw|key", re.IGNORECASE)


def head_of(data: bytes) -> str:
    """The first characters of a frame for a log line, with control characters escaped.

    A head never shows a secret. Of a JSON object it shows how it is built, and only those values
    that identify a frame; of other text no word that looks like a token, and nothing at all if a
    word hints at a secret.
    """
    text = bytes(data[:_HEAD]).decode("utf-8", "backslashreplace").removeprefix("\ufeff")
    if text.lstrip().startswith("{"):
        text = _skeleton(text)
    elif '"' in text or not text.replace("\n", " ").isprintable() or _TELLTALE.search(text):
        return _WITHHELD
    else:
        text = _OPAQUE.sub("***", text)
    return text.encode("unicode_escape").decode("ascii")[:_HEAD]


def _skeleton(text: str) -> str:
    """The start of an object with everything masked but known names and what identifies a frame."""
    name = ""
    named_to = -1  # where the name's colon ended: a value stands right behind it

    def mask(piece: re.Match[str]) -> str:
        nonlocal name, named_to
        content, colon = piece.groups()
        if content is None:
            return piece[0] if _BARE.fullmatch(piece[0]) else "***"
        if colon:
            name, named_to = content, piece.end()
            return piece[0] if name in _NAMED or name in _NAMES_ONLY else f'"***"{colon}'
        own = name in _NAMED and not text[named_to : piece.start()].strip()
        return piece[0] if own and _PLAIN.fullmatch(content) else '"***"'

    return _PIECE.sub(mask, text)
