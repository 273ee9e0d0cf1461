"""Keeps the ends of the last eight streamed results of a job, for pages that are opened later.

The page in the browser computes the same values from the chunks that it receives
(``ResultStreams`` in ``web/static/jobstate.js``). A page that starts with the values of this module
and receives the later chunks shows the same as a page that has received all chunks.
"""

from __future__ import annotations

from typing import Any

import msgspec

from arcp_client._feeds import frames

__all__ = ["ResultTails"]

_TAIL = 32 * 1024
"""Characters of a text that are kept in any case; up to twice as many are."""
_RESULTS = 8


class _Piece(msgspec.Struct):
    """A `ResultChunk` as the page receives it."""

    result_id: str = ""
    chunk_seq: int = 0
    data: str = ""
    encoding: str = "utf8"
    more: bool = True


class _PieceEntry(msgspec.Struct):
    event: _Piece


_ENTRY = msgspec.json.Decoder(_PieceEntry)


class ResultTails:
    """The ends of the last eight results of a job, at most 64 Ki characters of each."""

    def __init__(self) -> None:
        self._by_id: dict[str, dict[str, Any]] = {}

    def take(self, entry: bytes) -> None:
        """Add the piece in an entry of the feed; secrets in it are masked."""
        try:
            piece = _ENTRY.decode(entry).event
        except ValueError:  # a lone surrogate, or a mask in place of a number
            piece = _lenient(frames.decoded(entry)["event"])
        kept = self._by_id.get(piece.result_id)
        if kept is None:
            if len(self._by_id) >= _RESULTS:
                del self._by_id[next(iter(self._by_id))]
            kept = self._by_id[piece.result_id] = {
                "id": piece.result_id,
                "chunks": 0,
                "next": 0,
                "size": 0,
                "text": "",
                "cut": 0,
                "binary": False,
                "missing": 0,
                "done": False,
            }
        if piece.chunk_seq < kept["next"]:
            return
        kept["missing"] += piece.chunk_seq - kept["next"]
        kept["next"] = piece.chunk_seq + 1
        kept["chunks"] += 1
        kept["done"] = not piece.more
        if piece.encoding == "base64":
            kept["binary"] = True
            kept["size"] += len(piece.data.rstrip("=")) * 3 // 4
            return
        kept["size"] += len(piece.data.encode("utf-8", "replace"))
        text = kept["text"] + piece.data
        if len(text) > 2 * _TAIL:
            kept["cut"] += len(text) - _TAIL
            text = text[-_TAIL:]
        kept["text"] = text

    def to_list(self) -> list[dict[str, Any]]:
        """The results in the order of their first pieces, as JSON values."""
        return [dict(each) for each in self._by_id.values()]


def _lenient(fields: dict[str, Any]) -> _Piece:
    seq = fields.get("chunk_seq")
    return _Piece(
        result_id=str(fields.get("result_id", "")),
        chunk_seq=seq if isinstance(seq, int) else 0,
        data=str(fields.get("data", "")),
        encoding=str(fields.get("encoding", "utf8")),
        more=fields.get("more") is not False,
    )
