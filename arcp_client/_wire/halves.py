"""Replaces unpaired surrogates: one rule for every text of a result (§8.4).

JSON can hold half a character: an unpaired UTF-16 surrogate, written as an escape. UTF-8 cannot. A
runtime that cuts text by UTF-16 units may put the halves of one character into two chunks, and then
they make one. A half that stays alone is replaced by U+FFFD.
"""

from __future__ import annotations

from typing import Any, Final

__all__ = ["TextJoiner", "whole_texts"]

_REPLACEMENT: Final = "\ufffd".encode()


class TextJoiner:
    """Encodes the pieces of one text as UTF-8, whatever they were cut in."""

    def __init__(self) -> None:
        self._half = ""

    def add(self, piece: str) -> bytes:
        """The next piece; the first half of a character waits for the second."""
        text = self._half + piece
        self._half = ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            self._half, text = text[-1], text[:-1]
        return _paired(text).encode()

    def end(self) -> bytes:
        """What stands in place of a half that waits in vain: its other half does not come."""
        waiting, self._half = self._half, ""
        return _REPLACEMENT if waiting else b""


def whole_texts(value: Any) -> Any:
    """A JSON value with U+FFFD in place of each unpaired surrogate, in names as well."""
    holder = [value]
    left: list[Any] = [holder]
    while left:  # no recursion: it may be nested as deeply as the parser could follow
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
