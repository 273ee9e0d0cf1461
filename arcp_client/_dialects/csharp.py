"""The C# runtime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from arcp_client._dialects._silent_resume import SilentResume
from arcp_client._dialects._uncorrelated import Uncorrelated
from arcp_client._dialects._unnumbered import Unnumbered

__all__ = ["CSharp"]


class CSharp(Unnumbered, Uncorrelated, SilentResume):
    """Puts ``msg_`` before envelope ids; to be asked after `TypeScript`, which does so, too."""

    name: ClassVar[str] = "csharp"
    exact_sizes: ClassVar[bool] = False
    counts_by_job: ClassVar[bool] = True

    @classmethod
    def wrote(cls, welcome: Mapping[str, Any], envelope_id: str) -> bool:
        return envelope_id.startswith("msg_")
