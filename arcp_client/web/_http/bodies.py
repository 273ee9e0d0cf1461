"""Reads and validates the bodies of requests."""

from __future__ import annotations

import asyncio
from typing import TypeVar

import msgspec
from aiohttp import hdrs, web
from aiohttp.http import HttpProcessingError

from arcp_client.web._http.problems import LAST, Problem

__all__ = [
    "AnswerBody",
    "CancelBody",
    "LoginBody",
    "SubmitBody",
    "SubscribeBody",
    "VisibleBody",
    "label_of",
    "read",
    "read_bytes",
]

_BYTES = 1 << 20
_SECONDS = 15.0

T = TypeVar("T")


class LoginBody(msgspec.Struct, forbid_unknown_fields=True):
    """The body of ``POST login``."""

    token: str

    def __repr__(self) -> str:
        return "LoginBody(…)"


class SubmitBody(msgspec.Struct, forbid_unknown_fields=True):
    """The body of ``POST api/jobs``. The input stays JSON: its numbers keep their digits."""

    agent: str
    idempotency_key: str
    input: msgspec.Raw = msgspec.Raw(b"null")
    lease: dict[str, list[str]] | None = None
    max_runtime: float | None = None


class CancelBody(msgspec.Struct, forbid_unknown_fields=True):
    """The body of ``POST api/jobs/{id}/cancel``."""

    reason: str | None = None


class AnswerBody(msgspec.Struct, forbid_unknown_fields=True):
    """The body of ``POST api/jobs/{id}/answer``. The value stays JSON, with its digits."""

    question_id: str
    idempotency_key: str
    value: msgspec.Raw


class SubscribeBody(msgspec.Struct, forbid_unknown_fields=True):
    """The body of ``POST api/streams/{id}``: begins or ends a subscription of a shared stream."""

    add: str | None = None
    remove: str | None = None
    path: str = ""
    after: str | None = None


class VisibleBody(msgspec.Struct, forbid_unknown_fields=True):
    """The body of ``POST api/visible``."""

    jobs: list[str]


class _Labelled(msgspec.Struct):
    label: str = ""


def label_of(given: msgspec.Raw) -> str | None:
    """The label in the input of a job; ``None`` if the input has none."""
    try:
        label = msgspec.json.decode(bytes(given), type=_Labelled).label.strip()
    except (ValueError, RecursionError):  # the input is no object, or its label no text
        return None
    return label or None


async def read(request: web.Request, kind: type[T], *, empty: bool = False) -> T:
    """Read the body of a request as this type.

    Args:
        request: the request.
        kind: the type of the body.
        empty: whether a missing body counts as an empty object.

    Raises:
        Problem: the body is too large, too slow, not JSON, or does not fit the type.
    """
    data = await read_bytes(request)
    if not data and empty:
        data = b"{}"
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError as error:
        raise Problem(400, "INVALID_BODY", str(error)) from None
    except (ValueError, RecursionError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise Problem(400, "INVALID_JSON", f"the body is not JSON: {why}") from None


async def read_bytes(request: web.Request, most: int = _BYTES) -> bytes:
    """Read the body of a request.

    Args:
        request: the request.
        most: the maximum number of bytes.

    Raises:
        Problem: the body is too large, too slow or compressed.
    """
    if request.headers.get(hdrs.CONTENT_ENCODING, "identity").lower() != "identity":
        # A small compressed body can expand without limit.
        raise Problem(
            415, "COMPRESSED_BODY", "the body is compressed", "send it uncompressed", headers=LAST
        )
    too_large = Problem(413, "BODY_TOO_LARGE", f"a body has at most {most:,} bytes")
    if (request.content_length or 0) > most:
        raise too_large
    data = bytearray()
    try:
        async with asyncio.timeout(_SECONDS):
            async for chunk in request.content.iter_any():
                data += chunk
                if len(data) > most:
                    raise too_large
    except TimeoutError:
        raise Problem(408, "BODY_TOO_SLOW", "the body did not arrive in time") from None
    except (web.RequestPayloadError, HttpProcessingError):
        raise Problem(400, "INVALID_BODY", "the body violates HTTP", headers=LAST) from None
    except ConnectionError:
        raise Problem(400, "INVALID_BODY", "the body was cut off", headers=LAST) from None
    return bytes(data)
