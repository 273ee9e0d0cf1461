"""Names the dialects that tests run with: those of the registry, so that a new one is run, too."""

from __future__ import annotations

from typing import Final

from arcp_client._dialects import DIALECTS, SPECIFICATION
from arcp_client._dialects.own import Own

__all__ = ["ALL", "PLAYED"]

ALL: Final = tuple(DIALECTS)
"""As ``SessionInfo.dialect`` has them."""

PLAYED: Final = ("spec", *(name for name in ALL if name not in (Own.name, SPECIFICATION.name)))
"""Those that only a `ScriptedRuntime` can play here."""
