"""The runtime of this package, `arcp_client.runtime`: it keeps to the specification."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from arcp_client._protocol.peer import Peer

__all__ = ["Own"]


class Own(Peer):
    """Names itself in ``runtime.sdk``. Its frames never overtake one another."""

    name: ClassVar[str] = "arcp-client"
    hole_patience: ClassVar[float] = 0.0

    @classmethod
    def wrote(cls, welcome: Mapping[str, Any], envelope_id: str) -> bool:
        runtime = welcome.get("runtime")
        sdk = runtime.get("sdk") if isinstance(runtime, Mapping) else None
        return isinstance(sdk, str) and sdk.partition("/")[0] == cls.name
