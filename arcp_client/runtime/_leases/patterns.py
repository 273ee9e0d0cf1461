"""Decides whether lease patterns cover a target, and which spellings can be covered (§9.2).

The target of an operation is a plain text, such as a path; the target of a delegation is itself a
pattern. A pattern covers a plain text if it matches the text. It covers another pattern if it
matches every text that the other pattern matches. If the check cannot establish this, the target is
not covered. A target that two programs may interpret differently is not covered either, because the
operation could interpret the target differently from the check.
"""

from __future__ import annotations

import ipaddress
import posixpath
import re
import unicodedata
from collections.abc import Iterable, Sequence
from urllib.parse import unquote_to_bytes

__all__ = ["Effort", "Targets", "TooMuch", "covers", "normal_name", "normal_path", "normal_url"]

_ANY = "**"  # a separate symbol: a whole segment
_END = ""


def covers(namespace: str, pattern: str, target: str) -> bool:
    """Whether ``pattern`` covers all of ``target``.

    In ``fs.*`` and ``net.*``, ``*`` and ``?`` match within one segment between slashes, and the
    segment ``**`` matches any number of segments, including none: ``/a/b/**`` covers ``/a/b`` and
    ``/a/b/c/d``, not ``/a/bc``. In all other namespaces both stars match any text.
    """
    return Targets(namespace, [target]).uncovered([pattern]) is None


class TooMuch(Exception):
    """A comparison would exceed its effort limit."""


class Effort:
    """Bounds the cost of comparisons. The unit is one pattern symbol compared with a short text.

    Args:
        limit: the total cost.
    """

    def __init__(self, limit: int) -> None:
        self._left = limit

    def spend(self, amount: int) -> None:
        """Add to the cost.

        Raises:
            TooMuch: the limit is exceeded.
        """
        self._left -= amount
        if self._left < 0:
            raise TooMuch


_LONG = 1024  # this many further symbols cost as much as the first one


class Targets:
    """Texts that patterns must cover, compared all at once.

    The texts are concatenated to one row of symbols. A set of positions in that row is an integer
    with one bit for each position. A pattern advances its set of reached positions symbol by
    symbol, in all texts at the same time. So the time is proportional to the number of pattern
    symbols, without backtracking for stars.

    Args:
        namespace: determines the meaning of stars.
        texts: the targets.
        effort: bounds the cost; unbounded by default.

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
        self._one = self._star.open & ~self._at("*")  # only a star covers a star

    def _symbols(self, text: str) -> Iterable[str]:
        if not self._segmented:
            return [*text.replace("**", "*"), _END]
        symbols: list[str] = []
        for segment in text.split("/"):
            symbols += [_ANY] if segment == _ANY else [*segment, "/"]
        return [*symbols, _END]

    def _at(self, symbol: str) -> int:
        """Return the positions of a symbol."""
        places = self._sets.get(symbol)
        if places is None:
            places = self._sets[symbol] = _set(self._places.get(symbol, ()), self._length)
        return places

    def uncovered(self, patterns: Iterable[str]) -> str | None:
        """Return the first text that no pattern covers; ``None`` if every text is covered.

        Raises:
            TooMuch: the comparison exceeds the effort limit.
        """
        ends = left = self._at(_END)
        for pattern in patterns:
            left &= ~self._reached(pattern)
            if not left:
                return None
        first = left & -left
        return self._texts[(ends & (first - 1)).bit_count()]

    def _reached(self, pattern: str) -> int:
        """Return the ends of all texts that the pattern covers."""
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
    """The positions that a star may skip, in each text from where it was reached."""

    def __init__(self, open_: int) -> None:
        self.open = open_
        self._behind = open_ << 1 & ~open_  # the position after each run of open ones

    def on(self, reached: int) -> int:
        """Return every position that can be reached over open positions."""
        # Subtracting the lowest reached position from the position after its run sets all bits
        # between the two and clears the bit after the run.
        behind = self._behind
        return reached | ((behind - (reached & self.open)) ^ behind)


# ------------------------------------------------------------------------------ spellings


def normal_path(path: str) -> str | None:
    """Remove ``.``, ``..`` and repeated slashes. ``None`` if the path leads above its start.

    Only the text counts; symbolic links are not resolved. Code that opens files must resolve the
    path first, authorize the resolved path, and open that path.
    """
    if not path or "\0" in path or "\\" in path:
        return None
    plain = posixpath.normpath(path)
    if plain.startswith("//"):  # POSIX gives exactly two leading slashes a meaning
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
# Some programs decode these escapes and others do not, which changes the structure of the URL.
_NEVER_ESCAPED = frozenset(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/\\%\x7f"
).union(range(0x20))
_DOTS = (".", "..")


def normal_url(url: str) -> str | None:
    """Normalise a URL for patterns: no query, no fragment, no default port.

    Returns ``None`` for a URL that two programs might interpret differently. Such URLs have: user
    information, backslashes, white space, control or non-ASCII characters; dot segments or empty
    segments; escapes of unreserved characters, slashes or per cent signs; hosts with empty labels
    or a trailing dot; addresses in an unusual form; ports with leading zeros.
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
        # some programs read 127.1, 0x7f.0.0.1 and 2130706433 as addresses
        if _NUMBER.fullmatch(labels[-1]):
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
    # Some servers strip parameters from a segment before they check for dots.
    return not any(segment.partition(";")[0] in _DOTS for segment in segments)


_ESCAPE = re.compile("%[0-9A-Fa-f]{2}")


def normal_name(name: str) -> str | None:
    """Check the name of a tool, a model or an agent; return ``None`` if it is ambiguous.

    A name may become a path, a part of a URL or a line of text. So a name with invisible
    characters, characters that Unicode normalisation changes, per cent signs, backslashes, white
    space at an end, or empty or dot segments between slashes is ambiguous.
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
