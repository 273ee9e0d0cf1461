"""The public `Webhook`: a URL, the secrets that sign its calls, and the kinds of its calls."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from pydantic import SecretStr
from tenacity import wait_random_exponential
from tenacity.wait import wait_base
from yarl import URL

from arcp_client import _arguments as check
from arcp_client._hosts import is_loopback
from arcp_client.runtime._log.entries import JOB_ENDED, QUESTION_OPENED, QUESTION_SETTLED

__all__ = ["KINDS", "Webhook"]

KINDS: Final = (QUESTION_OPENED, QUESTION_SETTLED, JOB_ENDED)

_PREFIX = "whsec_"
_LEAST_SECRET = 24
_MOST_SECRET = 64
_MOST_SECRETS = 8


@dataclass(frozen=True, slots=True, init=False)
class Webhook:
    """A URL that a `Runtime` calls, by the conventions of Standard Webhooks.

    A call is an HTTP POST with a JSON body and the headers ``webhook-id``, ``webhook-timestamp``
    and ``webhook-signature``. The body has the type and the time of one event, ids and a status,
    but no question, answer, input or result. A receiver verifies the signature, and can fetch more
    with a client whose token may see the job.

    The calls for one job are made in order. A call may be made several times, with the same
    ``webhook-id``. A call has succeeded when it is answered with 2xx. 410 ends all calls to
    the URL until the runtime is started again. 408, 429, 5xx, a time-out and a broken connection
    are retried, and later events of the job wait. All other answers are final. Redirects are not
    followed.

    Args:
        url: ``https://…``; without user name and password. ``http://`` only for a loopback host.
        secret: signs the calls: ``whsec_`` and 24 to 64 bytes in base64. Several secrets, of which
            each signs, allow a receiver to change to a new one.
        events: what to call for: ``question.opened``, ``question.settled``, ``job.ended``.
        timeout: seconds for one call.
        give_up: seconds after the event, after which its call is not tried again.
        wait: a tenacity wait object, for the time between tries. By default the time is random,
            between 1 second and a limit that doubles with each try, from 2 to 300 seconds. A
            ``Retry-After`` of up to one hour is honoured if it is longer.
        allow_http: allow ``http://`` to any host. The calls can then be read on the way.

    Raises:
        ValueError: a value is invalid. The message has no secrets.
        TypeError: a value has the wrong type.
    """

    url: URL = field(repr=False)
    secrets: tuple[SecretStr, ...] = field(repr=False)
    events: tuple[str, ...]
    timeout: float
    give_up: float
    wait: wait_base = field(repr=False)
    origin: str
    """Scheme, host and port of the URL; the rest may be secret."""

    def __init__(
        self,
        url: str,
        *,
        secret: str | SecretStr | Iterable[str | SecretStr],
        events: Iterable[str] = KINDS,
        timeout: float = 15.0,
        give_up: float = 86_400.0,
        wait: wait_base | None = None,
        allow_http: bool = False,
    ) -> None:
        check.seconds("timeout", timeout, above=True)
        check.seconds("give_up", give_up)
        check.a_function("wait", wait, none=True, sync=True)
        check.a_flag("allow_http", allow_http)
        kinds = check.texts("events", events)
        for kind in kinds:
            check.any_of("each of events", kind, KINDS)
        if not kinds:
            raise ValueError(f"events must name at least one of {', '.join(KINDS)}")
        address = _address(url, allow_http=allow_http)
        put = object.__setattr__
        put(self, "url", address)
        put(self, "secrets", _secrets(secret))
        put(self, "events", tuple(dict.fromkeys(kinds)))
        put(self, "timeout", float(timeout))
        put(self, "give_up", float(give_up))
        put(self, "wait", wait or wait_random_exponential(multiplier=2, min=1, max=300))
        put(self, "origin", str(address.origin()))

    @property
    def key(self) -> str:
        """Identifies the URL in an event log, without containing it."""
        return hashlib.sha256(str(self.url).encode()).hexdigest()[:32]

    def signature(self, id: str, timestamp: int, body: bytes) -> str:
        """Return the value of ``webhook-signature``: one signature for each secret."""
        signed = f"{id}.{timestamp}.".encode() + body
        found = []
        for secret in self.secrets:
            key = base64.b64decode(secret.get_secret_value().removeprefix(_PREFIX))
            digest = hmac.digest(key, signed, "sha256")
            found.append(f"v1,{base64.b64encode(digest).decode('ascii')}")
        return " ".join(found)


def _address(url: object, *, allow_http: bool) -> URL:
    """Check a URL. It may contain secrets, so messages do not show it."""
    if not isinstance(url, str):
        raise TypeError(f"the URL of a webhook must be a string, not {type(url).__name__}")
    try:
        address = URL(url)
        port = address.port
    except ValueError:
        raise ValueError("the URL of a webhook is not valid") from None
    if address.scheme not in ("http", "https") or not address.host or not port:
        raise ValueError("the URL of a webhook must begin with https:// and name a host")
    if address.user is not None or address.password is not None:
        raise ValueError(
            "the URL of a webhook must have no user name or password: calls are signed instead"
        )
    if not url.isprintable() or " " in url:
        raise ValueError("the URL of a webhook must have no white space or control characters")
    if address.scheme == "http" and not allow_http and not is_loopback(address.host):
        raise ValueError(
            f"the webhook to {address.host} must have an https:// URL: over http:// others can read"
            " the calls; allow_http=True accepts this"
        )
    return address.with_fragment(None)


def _secrets(given: object) -> tuple[SecretStr, ...]:
    several = (given,) if isinstance(given, str | SecretStr) else given
    found = check.several("secret", several, str | SecretStr, "strings or SecretStr")
    if not 1 <= len(found) <= _MOST_SECRETS:
        raise ValueError(f"a webhook needs a secret, and has at most {_MOST_SECRETS}")
    return tuple(_secret(one) for one in found)


def _secret(given: str | SecretStr) -> SecretStr:
    text = given if isinstance(given, str) else given.get_secret_value()
    try:
        key = base64.b64decode(text.removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not text.startswith(_PREFIX) or not _LEAST_SECRET <= len(key) <= _MOST_SECRET:
        raise ValueError(
            f"the secret of a webhook must be {_PREFIX} and {_LEAST_SECRET} to {_MOST_SECRET}"
            f" random bytes in base64, as this prints: echo {_PREFIX}$(openssl rand -base64 32)"
        )
    return SecretStr(text)
