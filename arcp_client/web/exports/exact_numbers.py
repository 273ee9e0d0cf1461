"""Lets AG-UI events write numbers with the digits that the runtime sent.

The classes of AG-UI write a number as ``float`` does. An event from `make_event` has ``int`` and
``float`` in its fields, but writes the original digits in its JSON.
"""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar, cast

from ag_ui.core import BaseEvent
from pydantic import BaseModel, PrivateAttr

from arcp_client import _digits as digits
from arcp_client._feeds import frames

__all__ = ["make_event"]

B = TypeVar("B", bound=BaseEvent)


def make_event(kind: type[B], fields: dict[str, Any]) -> B:
    """An event of this class; values of its fields may have `digits.Digits`."""
    exact = {name: value for name, value in fields.items() if _has_fractions(value)}
    if not exact:
        return kind(**fields)
    made = _with_exact_numbers(kind)(**digits.plain(fields))
    made.keep_digits(exact)
    return cast(B, made)


class _ExactNumbers(BaseModel):
    """Part of an event whose JSON has numbers that ``float`` would write with other digits."""

    _exact: dict[str, Any] = PrivateAttr(default_factory=dict)

    def keep_digits(self, fields: dict[str, Any]) -> None:
        """Write these values, which have the digits of their numbers, in the JSON."""
        self._exact = fields

    def model_dump_json(self, **options: Any) -> str:
        """The event as JSON in one line, in ASCII."""
        layout = {"indent", "ensure_ascii"}
        chosen = {name: value for name, value in options.items() if name not in layout}
        dumped = self.model_dump(mode="json", **chosen)
        exact = {name: value for name, value in self._exact.items() if name in dumped}
        return frames.exact(dumped | exact).decode()


@cache
def _with_exact_numbers(kind: type[BaseEvent]) -> Any:
    """The class of events of this kind whose JSON has exact numbers."""
    return type(kind.__name__, (_ExactNumbers, kind), {"__module__": __name__})


def _has_fractions(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_fractions, value.values()))
    if isinstance(value, list):
        return any(map(_has_fractions, value))
    return isinstance(value, float | digits.Digits)
