"""A runtime that is not recognised: the client assumes that it follows the specification."""

from __future__ import annotations

from typing import ClassVar

from arcp_client._dialects._dialect import Dialect

__all__ = ["Unspecified"]


class Unspecified(Dialect):
    """Uses every default of `Peer`. The client assumes that frames may overtake one another."""

    title: ClassVar[str] = "specification"
    mark: ClassVar[str] = "no mark of another runtime"
