"""Adapts the payload fields that the Python and Go SDKs read differently from the specification.

An operator turns it on with `Runtime(dialect=…)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from arcp_client._wire import names

__all__ = ["GO", "PYTHON", "SPECIFICATION", "Compat"]


@dataclass(frozen=True, slots=True)
class Compat:
    """How the few things are said that clients disagree about.

    Attributes:
        texts: the counters of an acceptance are texts; the specification shows numbers (§7.1).
        plain: ``job.error`` always says ``error``; the specification tells ``cancelled`` and
            ``timed_out`` apart (§7.3, §7.4). The code still does.
        empty_is_none: an empty ``lease_request`` asks for nothing in particular, since the client
            cannot leave it out; else it asks for a lease that allows nothing (§9.1).
        output: an inline result stands under ``output`` as well. The specification shows it in
            ``job.result`` without naming its field (§8.4); ``result`` is what most clients read.
    """

    texts: bool = False
    plain: bool = False
    empty_is_none: bool = False
    output: bool = False

    def counters(self, amounts: Mapping[str, Decimal]) -> dict[str, Any]:
        """``budget`` of an acceptance."""
        return {name: str(value) if self.texts else value for name, value in amounts.items()}

    def final_status(self, status: str) -> str:
        """``final_status`` of a ``job.error``."""
        return names.ERROR if self.plain else status

    def inline(self, value: Any) -> dict[str, Any]:
        """The fields of a ``job.result`` that hold its value."""
        return {"result": value, "output": value} if self.output else {"result": value}

    def lease(self, request: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """What a submit asked for; ``None`` if nothing."""
        return None if self.empty_is_none and not request else request


SPECIFICATION = Compat()
PYTHON = Compat(texts=True, plain=True, empty_is_none=True)
GO = Compat(output=True)
