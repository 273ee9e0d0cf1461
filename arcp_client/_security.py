"""Checks the host name and the origin of HTTP requests, and delays answers to wrong tokens.

The runtime's WebSocket server and the dashboard use this module, which imports neither.

Every page in a developer's browser can send requests to a server on the developer's machine. With
DNS rebinding, the page's own host name resolves to 127.0.0.1, so that the request's ``Origin``
equals its ``Host``, and comparing the two is not enough. ``Host`` must also be a loopback name or a
configured name.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from urllib.parse import urlsplit

from arcp_client._hosts import is_loopback

__all__ = [
    "AllowedHosts",
    "WrongTokens",
    "client_address",
    "host_name",
    "is_address",
    "on_loopback",
]

_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::[0-9]{1,5})?")
_UNIX = "a Unix socket"

_sleep = asyncio.sleep

_FIRST = 0.1
_LONGEST = 2.0
_FORGOTTEN = 60.0
_AT_ONCE = 8
_WAITING = 256
_ADDRESSES = 1024


def host_name(hosts: Sequence[str]) -> str | None:
    """The name in the ``Host`` header of a request, in lower case and without a port.

    ``None`` unless the request has exactly one such header and it is well formed.
    """
    if len(hosts) != 1:
        return None
    found = _HOST.fullmatch(hosts[0])
    name = (found[1] or found[2]).lower().rstrip(".") if found is not None else ""
    return name or None


def is_address(name: str) -> bool:
    """Whether a host is an IP address, which DNS cannot redirect."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def on_loopback(transport: asyncio.BaseTransport | None) -> bool:
    """Whether the server accepted the connection on a loopback address or a Unix socket."""
    name = None if transport is None else transport.get_extra_info("sockname")
    return not isinstance(name, tuple) or is_loopback(str(name[0]))


def client_address(transport: asyncio.BaseTransport | None) -> str:
    """The client's address, for limits by address.

    For IPv6 it is the /64 network, because one client controls all addresses of such a network.
    """
    peer = None if transport is None else transport.get_extra_info("peername")
    if not isinstance(peer, tuple):
        return _UNIX
    text = str(peer[0])
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return text
    if isinstance(address, ipaddress.IPv4Address):
        return text
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(address) >> 64 << 64, 64)))


class AllowedHosts:
    """The host names under which a server may be reached: loopback names and configured ones.

    Args:
        names: further names, such as that of a proxy, without scheme and port.
        what: the name of the argument, for messages.

    Raises:
        ValueError: one of the names is not a host name.
    """

    def __init__(self, names: Iterable[str] = (), *, what: str = "allowed_hosts") -> None:
        self._names = frozenset(_checked(name, what) for name in names)

    def __bool__(self) -> bool:
        """Whether names are configured."""
        return bool(self._names)

    def __contains__(self, name: str) -> bool:
        return name in self._names or is_loopback(name)

    def own(self, origins: Iterable[str], host: str) -> bool:
        """Whether all origins of a request belong to this server.

        An origin belongs to this server if it equals the request's host, or if it is a configured
        name, because a proxy may have changed the host. A page cannot choose its own origin.
        """
        return all(self._is_own(origin, host.lower()) for origin in origins)

    def _is_own(self, origin: str, host: str) -> bool:
        try:
            parts = urlsplit(origin)
            name = (parts.hostname or "").rstrip(".")
        except ValueError:
            return False
        if parts.scheme not in ("http", "https") or not name:
            return False
        return parts.netloc.lower() == host or name in self._names


def _checked(name: str, what: str) -> str:
    bare = name.lower().rstrip(".")
    if bare.startswith("[") and bare.endswith("]"):
        bare = bare[1:-1]
    known = is_address(bare) or re.fullmatch(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*", bare)
    if not known:
        raise ValueError(
            f"{what}: {name!r:.80} is not a host name such as jobs.example, without scheme, port"
            " and path"
        )
    return bare


class _Tries:
    __slots__ = ("last", "waiting", "wrong")

    def __init__(self) -> None:
        self.wrong = 0
        self.last = 0.0
        self.waiting = 0


class WrongTokens:
    """Delays the answers to wrong tokens, so that tokens cannot be guessed.

    The first delay of an address is 0.1 s. Each further wrong token doubles it, up to 2 s; a minute
    without a wrong token resets it. At most eight answers to one address wait at a time. While
    eight wait, further tokens from that address are refused without a comparison (`full`). So an
    address can try about four tokens a second. Right tokens are not delayed, and other addresses
    are not affected.

    Args:
        addresses: number of addresses to remember; the least recently active one is dropped first.
    """

    def __init__(self, *, addresses: int = _ADDRESSES) -> None:
        self._addresses = addresses
        self._tries: OrderedDict[str, _Tries] = OrderedDict()
        self._waiting = 0

    def __len__(self) -> int:
        return len(self._tries)

    def full(self, address: str) -> bool:
        """Whether too many answers wait to compare a further token of this address."""
        if self._waiting >= _WAITING:
            return True
        tries = self._tries.get(address)
        return tries is not None and tries.waiting >= _AT_ONCE

    async def delay(self, address: str) -> None:
        """Wait until a wrong token of this address may be answered."""
        now = asyncio.get_running_loop().time()
        tries = self._tries.setdefault(address, _Tries())
        self._tries.move_to_end(address)
        if len(self._tries) > self._addresses:
            self._tries.popitem(last=False)
        if now - tries.last > _FORGOTTEN:
            tries.wrong = 0
        tries.last = now
        tries.waiting += 1
        self._waiting += 1
        try:
            await _sleep(min(_FIRST * 2**tries.wrong, _LONGEST))
            tries.wrong = min(tries.wrong + 1, 8)
        finally:
            tries.waiting -= 1
            self._waiting -= 1
