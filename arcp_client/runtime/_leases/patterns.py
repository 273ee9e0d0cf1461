"""Decides whether lease patterns cover targets, and which spellings may be covered (§9.2).

One question serves an operation, whose target is concrete, and a delegation, whose target is a
pattern: does everything that the target stands for lie inside the pattern? Where the two texts do
not show it, the answer is no. A target that two programs may read differently is covered by no
pattern, because the check and the operation could see different targets.
"""

from __future__ import annotations

import ipaddress
import posixpath
import re
import unicodedata
from collections.abc import Iterable, Sequence
from urllib.parse import unquote_to_bytes

__all__ = ["Effort", "Targets", "TooMuch", "covers", "normal_name", "normal_path", "normal_url"]

_ANY = "**"  # as a symbol of its own: a whole segment
_END = ""


def covers(namespace: str, pattern: str, target: str) -> bool:
    """Whether ``pattern`` covers all of ``target``.

    In ``fs.*`` and ``net.*``, ``*`` and ``?`` stay inside one segment between slashes, and the
    segment ``**`` stands for any number of segments, also none: ``/a/b/**`` covers ``/a/b`` and
    ``/a/b/c/d``, not ``/a/bc``. In all other namespaces both kinds of star stand for any text.
    """
    return Targets(namespace, [target]).uncovered([pattern]) is None


class TooMuch(Exception):
    """Comparing would take longer than it may."""


class Effort:
    """What comparing may cost, in symbols of a pattern against a short text: 0.1 to 0.2 us each.

    Args:
        limit: in all.
    """

    def __init__(self, limit: int) -> None:
        self._left = limit

    def spend(self, amount: int) -> None:
        """Go on.

        Raises:
            TooMuch: it is spent.
        """
        self._left -= amount
        if self._left < 0:
            raise TooMuch


_LONG = 1024  # symbols that are as much work again as the first one


class Targets:
    """Texts that patterns are to cover, all of them at once.

    The texts stand one behind another in one row of symbols, and a set of places in that row is
    one integer, a bit a place. A pattern moves the set of places that it has reached, symbol by
    symbol, in all texts together. So the time is that of the patterns' symbols times some
    operations on such integers, whatever the stars: there is nothing to go back to.

    Args:
        namespace: says what stars stand for.
        texts: the targets.
        effort: bounds the work; by default nothing does.

    Raises:
        TooMuch: the texts alone are too long.
    """

    def __init__(self, namespace: str, texts: Sequence[str], effort: Effort | None = None) -> None:
        self._effort = effort
        if effort is not None:
            effort.spend(2 * sum(map(len, texts)))
        self._texts = texts
        self._segmented = namespace.startswith(("fs.", "net."))
        self._places: dict[str, list[int]] = {}
        self._sets: dict[str, int] = {}
        starts, length = [], 0
        for text in texts:
            starts.append(length)
            for symbol in self._symbols(text):
                self._places.setdefault(symbol, []).append(length)
                length += 1
        self._length = length
        self._starts = _set(starts, length)
        inside = (1 << length) - 1 ^ self._at(_END)
        self._any_text = _Span(inside)
        self._star = self._any_text
        self._borders = 0  # between segments
        if self._segmented:
            ends = self._at("/") | self._at(_ANY)
            self._star = _Span(inside ^ ends)
            self._borders = self._starts | ends << 1
        self._one = self._star.open & ~self._at("*")  # a star is covered by a star alone

    def _symbols(self, text: str) -> Iterable[str]:
        if not self._segmented:
            return [*text.replace("**", "*"), _END]
        symbols: list[str] = []
        for segment in text.split("/"):
            symbols += [_ANY] if segment == _ANY else [*segment, "/"]
        return [*symbols, _END]

    def _at(self, symbol: str) -> int:
        """The places where a symbol stands."""
        places = self._sets.get(symbol)
        if places is None:
            places = self._sets[symbol] = _set(self._places.get(symbol, ()), self._length)
        return places

    def uncovered(self, patterns: Iterable[str]) -> str | None:
        """The first text that none of the patterns covers; ``None`` if each is covered by one.

        Raises:
            TooMuch: it takes too long to see.
        """
        ends = left = self._at(_END)
        for pattern in patterns:
            left &= ~self._reached(pattern)
            if not left:
                return None
        first = left & -left
        return self._texts[(ends & (first - 1)).bit_count()]

    def _reached(self, pattern: str) -> int:
        """The ends of all texts that the pattern covers."""
        reached, star, ends = self._starts, self._star, self._at(_END)
        steps = 0
        for symbol in self._symbols(pattern):
            steps += 1
            if symbol == "*":
                reached = star.on(reached)
            elif symbol == "?":
                reached = (reached & self._one) << 1
            elif symbol == _ANY:
                reached = self._any_text.on(reached) & self._borders
            elif symbol != _END:
                reached = (reached & self._at(symbol)) << 1
            if not reached:
                break
        if self._effort is not None:
            self._effort.spend(steps * (1 + self._length // _LONG))
        return reached & ends


def _set(places: Iterable[int], length: int) -> int:
    row = bytearray(length // 8 + 1)
    for place in places:
        row[place >> 3] |= 1 << (place & 7)
    return int.from_bytes(row, "little")


class _Span:
    """Places that a star may run over, in each text from where it was reached."""

    def __init__(self, open_: int) -> None:
        self.open = open_
        self._behind = open_ << 1 & ~open_  # the place behind each run of open ones

    def on(self, reached: int) -> int:
        """Every place that is reached by going on over open places."""
        # Taken off the place behind its run, the lowest place that was reached turns itself and
        # all between the two on, and the one behind off.
        behind = self._behind
        return reached | ((behind - (reached & self.open)) ^ behind)


# ------------------------------------------------------------------------------ spellings


def normal_path(path: str) -> str | None:
    """A path without ``.``, ``..`` and repeated slashes; ``None`` if it leaves where it starts.

    Symbolic links are not looked at: the text alone decides. Code that opens files resolves the
    path first, asks for the resolved one and opens that.
    """
    if not path or "\0" in path or "\\" in path:
        return None
    plain = posixpath.normpath(path)
    if plain.startswith("//"):  # POSIX keeps exactly two
        plain = plain[1:]
    if plain == ".." or plain.startswith("../"):
        return None
    return plain


_URL = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://"
    r"(?P<host>\[[0-9A-Fa-f:]+\]|[A-Za-z0-9._-]+)(?::(?P<port>[1-9][0-9]{0,4}))?"
    r"(?P<path>(?:/(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})*)*)"
    r"(?:[?#][\x21-\x5b\x5d-\x7e]*)?"
)
_ESCAPED = re.compile("%(..)")
_DEFAULT_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}
_NUMBER = re.compile("[0-9]+|0x[0-9a-f]*")
# Some readers take these escapes off, others do not; then they are parts of the URL's structure.
_NEVER_ESCAPED = frozenset(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/\\%\x7f"
).union(range(0x20))
_DOTS = (".", "..")


def normal_url(url: str) -> str | None:
    """A URL without query, fragment and default port, in the spelling that patterns are held to.

    ``None`` for anything that two readers might read differently: user information, backslashes,
    white space, control characters and whatever else is not ASCII; dot segments, empty segments,
    and escapes of characters that need none, of slashes and of per cent signs; hosts with empty
    labels or a dot at the end, and addresses that are not in their usual form; ports with zeros
    in front.
    """
    match = _URL.fullmatch(url)
    if match is None:
        return None
    scheme, path, port = match["scheme"].lower(), match["path"], match["port"]
    host = _host(match["host"].lower())
    if host is None or not _same_for_all(path):
        return None
    if port is not None and int(port) != _DEFAULT_PORTS.get(scheme):
        if int(port) > 65535:
            return None
        host = f"{host}:{port}"
    return f"{scheme}://{host}{path}"


def _host(host: str) -> str | None:
    try:
        if host.startswith("["):
            return host if str(ipaddress.IPv6Address(host[1:-1])) == host[1:-1] else None
        labels = host.split(".")
        if _NUMBER.fullmatch(labels[-1]):  # 127.1, 0x7f.0.0.1 and 2130706433 are addresses to some
            return host if str(ipaddress.IPv4Address(host)) == host else None
    except ValueError:
        return None
    return host if all(labels) else None


def _same_for_all(path: str) -> bool:
    if any(int(digits, 16) in _NEVER_ESCAPED for digits in _ESCAPED.findall(path)):
        return False
    try:
        segments = unquote_to_bytes(path).decode().split("/")
    except UnicodeDecodeError:
        return False
    if "" in segments[1:-1]:
        return False
    # Some servers take parameters off a segment before they look for dots.
    return not any(segment.partition(";")[0] in _DOTS for segment in segments)


_ESCAPE = re.compile("%[0-9A-Fa-f]{2}")


def normal_name(name: str) -> str | None:
    """The name of a tool, a model or an agent; ``None`` for one that readers may read differently.

    A name may become a path, a part of a URL or a line of text on its way: so none has characters
    that cannot be seen, that a normalisation of Unicode changes, or that stand for others (escapes
    with a per cent sign, backslashes), white space at an end, nor dots or nothing between slashes.
    """
    segments = name.split("/")
    if (
        not name
        or not name.isprintable()
        or name != name.strip()
        or name != unicodedata.normalize("NFKC", name)
        or "\\" in name
        or _ESCAPE.search(name)
        or "" in segments[1:]
        or any(segment in _DOTS for segment in segments)
    ):
        return None
    return name
