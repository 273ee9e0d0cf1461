"""Makes one HTTP call of a webhook, and decides what its answer means."""

from __future__ import annotations

import asyncio
import enum
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import aiohttp

from arcp_client.runtime._log.entries import WebhookCall
from arcp_client.runtime._webhooks.endpoint import Webhook
from arcp_client.version import __version__

__all__ = ["CallAnswer", "CallEnd", "attempt", "open_session"]

_LONGEST_WAIT = 3600.0
"""Seconds of a ``Retry-After`` that are honoured."""


class CallEnd(enum.Enum):
    """What becomes of a call."""

    MADE = "made"
    AGAIN = "again"
    REFUSED = "refused"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class CallAnswer:
    """The answer to one call.

    Attributes:
        verdict: what becomes of the call.
        why: the status or the error, without any text of the receiver.
        after: seconds that the receiver asks to wait.
    """

    verdict: CallEnd
    why: str
    after: float = 0.0


def open_session() -> aiohttp.ClientSession:
    """Make an HTTP client that keeps no cookies and uses no proxy."""
    return aiohttp.ClientSession(
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None),
        auto_decompress=False,
    )


async def attempt(
    session: aiohttp.ClientSession, webhook: Webhook, call: WebhookCall
) -> CallAnswer:
    """Make the call once. The body of the answer is not read."""
    timestamp = int(time.time())
    headers = {
        "Content-Type": "application/json",
        "User-Agent": f"arcp-client/{__version__}",
        "webhook-id": call.id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": webhook.signature(call.id, timestamp, call.body),
    }
    try:
        async with asyncio.timeout(webhook.timeout):
            response = await session.post(
                webhook.url, data=call.body, headers=headers, allow_redirects=False
            )
            # Keeps the connection if the answer is complete, else closes it.
            response.release()
    except TimeoutError:
        return CallAnswer(CallEnd.AGAIN, f"no answer in {webhook.timeout:g} s")
    except Exception as error:  # noqa: BLE001 - whatever the receiver sends, later calls are made
        # Only the class: texts of aiohttp may have the URL, or what the receiver sent.
        return CallAnswer(CallEnd.AGAIN, type(error).__name__)
    return CallAnswer(
        _verdict(response.status),
        f"HTTP {response.status}",
        _seconds(response.headers.get("Retry-After", "")),
    )


def _verdict(status: int) -> CallEnd:
    if 200 <= status <= 299:
        return CallEnd.MADE
    if status == 410:
        return CallEnd.GONE
    if status in (408, 429) or status >= 500:
        return CallEnd.AGAIN
    return CallEnd.REFUSED


def _seconds(text: str) -> float:
    """Return the seconds of a ``Retry-After``, which has seconds or a date; 0 for any other."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        return min(float(text[:9]) if len(text) < 10 else _LONGEST_WAIT, _LONGEST_WAIT)
    try:
        moment = parsedate_to_datetime(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        seconds = (moment - datetime.now(UTC)).total_seconds()
    except (ValueError, TypeError, OverflowError):
        return 0.0
    return min(max(seconds, 0.0), _LONGEST_WAIT)
