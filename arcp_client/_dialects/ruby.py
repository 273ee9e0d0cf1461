"""The Ruby runtime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from arcp_client._dialects._lease_names import LeaseNames
from arcp_client._dialects._silent_resume import SilentResume
from arcp_client._dialects._unnumbered import Unnumbered
from arcp_client._wire.messages import Bye
from arcp_client._wire.messages import Request as Message

__all__ = ["Ruby"]


class Ruby(Unnumbered, LeaseNames, SilentResume):
    """The names in its welcome are flat."""

    name: ClassVar[str] = "ruby"
    exact_sizes: ClassVar[bool] = False
    numbers_apart: ClassVar[Literal["", "own", "submitter"]] = "submitter"
    hears_by_subscribing: ClassVar[bool] = True

    @classmethod
    def wrote(cls, welcome: Mapping[str, Any], envelope_id: str) -> bool:
        return "runtime_name" in welcome

    def goodbye(self) -> Message | None:
        return Bye()

    @property
    def confirms_goodbye(self) -> bool:
        return False
