"""The Go runtime."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from arcp_client._dialects._mixed_history import MixedHistory
from arcp_client._protocol.peer import Next

__all__ = ["Go"]

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Go(MixedHistory):
    """Its envelope ids are UUIDs."""

    name: ClassVar[str] = "go"
    exact_sizes: ClassVar[bool] = False
    accepts_acks: ClassVar[bool] = False  # they free what histories of watchers need
    max_frame: ClassVar[int | None] = 2**20
    max_line: ClassVar[int | None] = 2**20 - 1

    @classmethod
    def wrote(cls, welcome: Mapping[str, Any], envelope_id: str) -> bool:
        return bool(_UUID.fullmatch(envelope_id))

    def resume_refused(self) -> Next:
        return Next.AGAIN  # it is refused while the runtime believes in the old link
