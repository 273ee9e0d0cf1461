"""Encodes frames as whole WebSocket text messages, as a server writes them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

__all__ = ["messages"]


def messages(frames: Iterable[bytes]) -> bytes:
    """Encode each frame as one unmasked message (RFC 6455 §5.1, §5.2)."""
    pieces: list[bytes] = []
    for frame in frames:
        pieces += (_head(len(frame)), frame)
    return b"".join(pieces)


@lru_cache(4096)
def _head(size: int) -> bytes:
    if size < 126:
        return bytes((0x81, size))
    if size < 65536:
        return b"\x81\x7e" + size.to_bytes(2, "big")
    return b"\x81\x7f" + size.to_bytes(8, "big")
