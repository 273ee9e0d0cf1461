"""Reads the bodies of requests into typed values."""

from __future__ import annotations

import asyncio
from typing import TypeVar

import msgspec
from aiohttp import hdrs, web
from aiohttp.http import HttpProcessingError

from arcp_client.web.problems import LAST, Problem

__all__ = ["Cancel", "Login", "Submit", "read"]

_BYTES = 1 << 20
_SECONDS = 15.0

T = TypeVar("T")


class Login(msgspec.Struct, forbid_unknown_fields=True):
    """``POST login``."""

    token: str

    def __repr__(self) -> str:
        return "Login(…)"


class Submit(msgspec.Struct, forbid_unknown_fields=True):
    """``POST api/jobs``. The input stays the text that was typed: its numbers keep their digits."""

    agent: str
    idempotency_key: str
    input: msgspec.Raw = msgspec.Raw(b"null")
    lease: dict[str, list[str]] | None = None
    max_runtime: float | None = None


class Cancel(msgspec.Struct, forbid_unknown_fields=True):
    """``POST api/jobs/{id}/cancel``."""

    reason: str | None = None


async def read(request: web.Request, kind: type[T], *, empty: bool = False) -> T:
    """The body as this type.

    Args:
        request: whose.
        kind: what it must be.
        empty: no body is an empty object.

    Raises:
        Problem: it is too large, too slow, no JSON, or another type.
    """
    data = await _bytes(request)
    if not data and empty:
        data = b"{}"
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError as error:
        raise Problem(400, "INVALID_BODY", str(error)) from None
    except (ValueError, RecursionError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise Problem(400, "INVALID_JSON", f"the body is not JSON: {why}") from None


async def _bytes(request: web.Request) -> bytes:
    if request.headers.get(hdrs.CONTENT_ENCODING, "identity").lower() != "identity":
        # Neither small nor valid for sure, and nobody has to compress a megabyte at most.
        raise Problem(
            415, "COMPRESSED_BODY", "a body is not compressed", "send it as it is", headers=LAST
        )
    too_large = Problem(413, "BODY_TOO_LARGE", f"a body has at most {_BYTES:,} bytes")
    if (request.content_length or 0) > _BYTES:
        raise too_large
    data = bytearray()
    try:
        async with asyncio.timeout(_SECONDS):
            async for chunk in request.content.iter_any():
                data += chunk
                if len(data) > _BYTES:
                    raise too_large
    except TimeoutError:
        raise Problem(408, "BODY_TOO_SLOW", "the body did not come in time") from None
    except (web.RequestPayloadError, HttpProcessingError):
        raise Problem(400, "INVALID_BODY", "the body does not follow HTTP", headers=LAST) from None
    except ConnectionError:
        raise Problem(400, "INVALID_BODY", "the body was cut off", headers=LAST) from None
    return bytes(data)
