"""Reads the envelope of a damaged frame if possible, and masks its bytes for errors and logs.

A frame that cannot be parsed may contain secrets anywhere. So the log shows only the parts that are
known to be harmless.
"""

from __future__ import annotations

import json
import re
from typing import Any

from arcp_client.errors import RemoteProtocolError

__all__ = ["HEAD", "head_of", "header_of", "identify", "unreadable"]

# A string, complete or truncated; a run of brackets of one kind. Linear time: no backtracking.
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.?)*+(?:"|\Z)|[{\[]++|[}\]]++', re.DOTALL)
_VALUE = re.compile(rb'\s*:\s*([1-9][0-9]{0,18}|"(?:[^"\\]|\\.)*+")\s*[,}]', re.DOTALL)
_NAMES = {b'"event_seq"': "event_seq", b'"id"': "id", b'"job_id"': "job_id"}
_CLOSING = bytes.maketrans(b"{[", b"}]")
_MAX_TOKENS = 250_000


def header_of(data: bytes) -> dict[str, Any]:
    """Read the envelope fields of a frame that is not valid JSON as a whole.

    A frame whose ``event_seq`` is readable counts as received (§8.3). So an unreadable body loses
    one event, and no resume is needed.
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
                break  # the end, or the data does not continue as a frame
        elif open_ == b"{":
            name = _NAMES.get(data[start:end])
            value = _VALUE.match(data, end) if name else None
            if name and value:
                # The field appears twice in a damaged frame: neither value can be trusted.
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

HEAD = 160
"""Bytes of a frame that a head is made from."""
_WITHHELD = "<withheld: may hold a secret>"
_NAMED = frozenset({"arcp", "id", "type", "session_id", "job_id", "kind", "ts", "level", "phase"})
_NAMED |= {"jsonrpc", "method", "sessionId", "sessionUpdate"}
_NAMES_ONLY = frozenset({"event_seq", "trace_id", "payload", "body", "message", "auth", "token"})
_NAMES_ONLY |= {"params", "result", "error", "update"}
_PIECE = re.compile(r'"((?:[^"\\]|\\.)*)"?(\s*:)?|[^\s{}\[\]:,"]+', re.DOTALL)
_PLAIN = re.compile(r"[\w.:@+-]{1,64}")
_BARE = re.compile(r"true|false|null|NaN|-?Infinity|-?[0-9][0-9.eE+-]{0,23}")
_OPAQUE = re.compile(r"(?=\S*[0-9])\S{6,}|[\w+/=.~-]{16,}")
_CLOSE_WORDS = """
    a an and another are at auth authentication authorization bad bearer by client closed
    connect connection credential credentials denied does expected expired failed for frame from
    given going goodbye has header heartbeat hello in invalid is key later link log login lost
    malformed match missing must need needed no normal not of on or out policy protocol refused
    rejected required restart resume revoked runtime scheme secret server service session
    shutdown shutting down the timed timeout to token tokens too try unauthenticated
    unauthorized unexpected unknown unsupported violation was with wrong you your
"""
_WORDS = frozenset(_CLOSE_WORDS.split())
_LETTERS = re.compile(r"[A-Za-z]+")
_PROSE = re.compile(r"[A-Za-z_ ,.:;!()/-]*")
_TELLTALE = re.compile(r"token|secret|auth|bearer|credential|passw|key", re.IGNORECASE)


def head_of(data: bytes) -> str:
    """Return the first characters of a frame for a log line, with control characters escaped.

    A head never shows a secret. Of a JSON object it shows the structure and only the values that
    identify a frame. Of other text it omits words that look like a token. If a word hints at a
    secret, the whole text is omitted, unless it consists only of words from common close reasons.
    """
    text = bytes(data[:HEAD]).decode("utf-8", "backslashreplace").removeprefix("\ufeff")
    if text.lstrip().startswith("{"):
        text = _skeleton(text)
    elif _PROSE.fullmatch(text) and _WORDS.issuperset(_LETTERS.findall(text.lower())):
        pass  # "invalid token" reveals no token
    elif '"' in text or not text.replace("\n", " ").isprintable() or _TELLTALE.search(text):
        return _WITHHELD
    else:
        text = _OPAQUE.sub("***", text)
    return text.encode("unicode_escape").decode("ascii")[:HEAD]


def unreadable(text: str, data: bytes, *, size: int | None = None) -> RemoteProtocolError:
    """Make the error for an unreadable frame or line.

    Args:
        text: describes the fault.
        data: the frame or its beginning; `head_of` masks it for the message.
        size: the size of the frame in bytes, if ``data`` is only its beginning.
    """
    whole = len(data) if size is None else size
    return RemoteProtocolError(text, size=whole, head=head_of(data))


BEGINNING = 4096
"""Bytes searched for the ``event_seq`` of a dropped frame; it stands at the beginning of an
envelope.
"""


def identify(error: RemoteProtocolError, data: bytes) -> None:
    """Add the ``event_seq`` and the job id of a frame that the transport dropped to its error."""
    header = header_of(data[:BEGINNING])
    number, job_id = header.get("event_seq"), header.get("job_id")
    error.event_seq = number if isinstance(number, int) else None
    error.job_id = job_id if isinstance(job_id, str) else None


def _skeleton(text: str) -> str:
    """Mask the beginning of an object, except for known names and identifying values."""
    name = ""
    named_to = -1  # the end of the name's colon: a value follows directly

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
