"""A pattern and a target in, whether the one covers the other out (§9.2).

The same question decides an operation (the target is concrete) and a delegation (the target is a
pattern): *does everything that the target stands for lie inside the pattern?* Where that cannot be
seen by looking at both texts once, the answer is no.
"""

from __future__ import annotations

import posixpath
from functools import lru_cache
from urllib.parse import urlsplit, urlunsplit

__all__ = ["covers", "normal_path", "normal_url"]


def covers(namespace: str, pattern: str, target: str) -> bool:
    """Whether ``pattern`` covers all of ``target``.

    In ``fs.*`` and ``net.*``, ``*`` and ``?`` stay inside one segment between slashes, and the
    segment ``**`` stands for any number of segments, also none: ``/a/b/**`` covers ``/a/b`` and
    ``/a/b/c/d``, not ``/a/bc``. In all other namespaces both kinds of star stand for any text.
    """
    if namespace.startswith(("fs.", "net.")):
        return _segments(tuple(pattern.split("/")), tuple(target.split("/")))
    return _within(pattern.replace("**", "*"), target.replace("**", "*"))


@lru_cache(maxsize=1024)
def _segments(pattern: tuple[str, ...], target: tuple[str, ...]) -> bool:
    # reach[j]: the pattern's segments so far cover exactly the first j of the target's.
    reach = [True] + [False] * len(target)
    for segment in pattern:
        after = [False] * (len(target) + 1)
        if segment == "**":
            open_ = False
            for j, reached in enumerate(reach):
                open_ = open_ or reached
                after[j] = open_
        else:
            for j, part in enumerate(target):
                # A "**" of the target is any number of segments: only "**" covers it.
                after[j + 1] = reach[j] and part != "**" and _within(segment, part)
        reach = after
    return reach[-1]


@lru_cache(maxsize=4096)
def _within(pattern: str, target: str) -> bool:
    """The same for one segment; a star of the target is covered by a star alone."""
    if "*" not in pattern and "?" not in pattern:
        return pattern == target
    reach = [True] + [False] * len(target)
    for symbol in pattern:
        after = [False] * (len(target) + 1)
        if symbol == "*":
            open_ = False
            for j, reached in enumerate(reach):
                open_ = open_ or reached
                after[j] = open_
        else:
            for j, other in enumerate(target):
                same = other != "*" if symbol == "?" else other == symbol
                after[j + 1] = reach[j] and same
        reach = after
    return reach[-1]


def normal_path(path: str) -> str | None:
    """A path without ``.``, ``..`` and repeated slashes; ``None`` if it leaves where it starts."""
    if not path or "\0" in path or "\\" in path:
        return None
    plain = posixpath.normpath(path)
    if plain.startswith("//"):  # POSIX keeps exactly two
        plain = plain[1:]
    if plain == ".." or plain.startswith("../"):
        return None
    return plain


def normal_url(url: str) -> str | None:
    """A URL without query, fragment and dot segments, in the spelling that patterns are held to.

    ``None`` for anything that two readers might read differently: user information, backslashes,
    control characters, an encoded slash or dot, no host.
    """
    if any(ord(c) <= 32 or c == "\\" for c in url):
        return None
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    host = parts.hostname
    if not parts.scheme or not host or "@" in parts.netloc:
        return None
    lowered = parts.path.lower()
    if "%2f" in lowered or "%2e" in lowered or "%5c" in lowered:
        return None
    path = normal_path(parts.path) if parts.path else ""
    if path is None:
        return None
    if parts.path.endswith("/") and not path.endswith("/"):
        path += "/"
    if ":" in host:
        host = f"[{host}]"
    if port is not None and port != {"http": 80, "https": 443}.get(parts.scheme):
        host = f"{host}:{port}"
    return urlunsplit((parts.scheme, host, path, "", ""))
