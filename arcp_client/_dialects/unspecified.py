"""A runtime that is not recognised: the client expects what the specification says."""

from __future__ import annotations

from typing import ClassVar

from arcp_client._dialects._dialect import Dialect

__all__ = ["Unspecified"]


class Unspecified(Dialect):
    """Every default of `Peer`. Frames may overtake one another, as far as is known."""

    title: ClassVar[str] = "specification"
    mark: ClassVar[str] = "no mark of another runtime"
