"""Adapts payload fields that some client SDKs read differently from the specification.

The application selects a dialect with `Runtime(dialect=…)`.
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
    """How to encode the fields that clients read differently.

    Attributes:
        texts: encode the budget of an acceptance as strings; the specification shows numbers
            (§7.1).
        plain: always send ``error`` as the status of ``job.error``. The specification has
            ``cancelled`` and ``timed_out`` too (§7.3, §7.4); the error code still distinguishes
            these.
        empty_is_none: treat an empty ``lease_request`` as absent, because such clients always send
            one. By the specification, it requests a lease that allows nothing (§9.1).
        output: send an inline result under ``output`` as well as ``result``. The specification does
            not name the field (§8.4); most clients read ``result``.
    """

    texts: bool = False
    plain: bool = False
    empty_is_none: bool = False
    output: bool = False

    def counters(self, amounts: Mapping[str, Decimal]) -> dict[str, Any]:
        """Encode the ``budget`` of an acceptance."""
        return {name: str(value) if self.texts else value for name, value in amounts.items()}

    def final_status(self, status: str) -> str:
        """Return the ``final_status`` of a ``job.error``."""
        return names.ERROR if self.plain else status

    def inline(self, value: Any) -> dict[str, Any]:
        """Return the fields of a ``job.result`` that hold its value."""
        return {"result": value, "output": value} if self.output else {"result": value}

    def lease(self, request: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """Return the lease that a submit requests; ``None`` if it requests none."""
        return None if self.empty_is_none and not request else request


SPECIFICATION = Compat()
PYTHON = Compat(texts=True, plain=True, empty_is_none=True)
GO = Compat(output=True)
