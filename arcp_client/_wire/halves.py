"""Joins or replaces unpaired surrogates in the texts of a result (§8.4).

JSON can contain an unpaired UTF-16 surrogate as an escape; UTF-8 cannot. A runtime that splits text
by UTF-16 units may put the two surrogates of one character into two chunks. These two are joined
again. A surrogate that stays unpaired is replaced by U+FFFD.
"""

from __future__ import annotations

from typing import Any, Final

__all__ = ["TextJoiner", "whole_texts"]

_REPLACEMENT: Final = "\ufffd".encode()


class TextJoiner:
    """Encodes the pieces of one text as UTF-8, even if a piece ends inside a surrogate pair."""

    def __init__(self) -> None:
        self._half = ""

    def add(self, piece: str) -> bytes:
        """Encode the next piece; a trailing high surrogate is kept for the next call."""
        text = self._half + piece
        self._half = ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            self._half, text = text[-1], text[:-1]
        return _paired(text).encode()

    def end(self) -> bytes:
        """End the text. Returns the replacement for an unpaired surrogate at its end, if any."""
        waiting, self._half = self._half, ""
        return _REPLACEMENT if waiting else b""


def whole_texts(value: Any) -> Any:
    """Replace each unpaired surrogate in a JSON value by U+FFFD, object keys included."""
    holder = [value]
    left: list[Any] = [holder]
    while left:  # iterative: the value may be nested as deeply as the parser allows
        node = left.pop()
        if isinstance(node, dict):
            items = [(_whole(name), _whole(item)) for name, item in node.items()]
            node.clear()
            node.update(items)
            left += [item for _, item in items if isinstance(item, dict | list)]
        else:
            node[:] = [_whole(item) for item in node]
            left += [item for item in node if isinstance(item, dict | list)]
    return holder[0]


def _whole(value: Any) -> Any:
    return _paired(value) if isinstance(value, str) and not value.isascii() else value


def _paired(text: str) -> str:
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
