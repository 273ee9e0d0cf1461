"""Locates the part of a user's value that has no JSON form, for the error message.

`codec.snapshot` calls it only after encoding has failed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, Final

__all__ = ["fault_of"]

_MOST: Final = 1_000_000
"""Values that are searched at most."""
_DEEPEST: Final = 10_000
"""Python 3.13 encodes values nested almost this deeply; earlier versions stop much sooner."""
_LONGEST: Final = 120
_NAME: Final = 40

_Place = tuple[Any, str] | None  # the parent, and the last step from it to the value


def fault_of(value: Any, plain: Callable[[Any], Any]) -> str | None:
    """Describe the first value without a JSON form, such as ``$.a[3]: set has no form in JSON``.

    Returns None if none is found.

    Args:
        value: the value that could not be encoded.
        plain: converts one level of a value that the ``json`` module cannot encode, or raises.
    """
    open_: set[int] = set()
    left: list[tuple[Any, _Place, int]] = [(value, None, 0)]  # a negative depth: seen whole
    for _ in range(_MOST):
        if not left:
            return None
        at, place, depth = left.pop()
        if depth < 0:
            open_.discard(at)
            continue
        if at is None or isinstance(at, bool | str):
            continue
        if not isinstance(at, int | float | dict | list | tuple):
            try:
                left.append((plain(at), place, depth + 1))
            except Exception:  # noqa: BLE001 - users' classes raise what they like
                return _said(place, at)
            continue
        if isinstance(at, int | float):
            if (fault := _of_number(at)) is not None:
                return f"{_path(place)}: {fault}"
            continue
        if id(at) in open_:
            return f"{_path(place)}: Circular reference"
        if depth > _DEEPEST:
            return f"{_path(place)}: it is nested too deeply"
        open_.add(id(at))
        left.append((id(at), None, -1))
        key = _odd_key(at)
        if key is not None:
            return f"{_path(place)}: a key of type {type(key).__name__} has no form in JSON"
        left.extend((each, (place, step), depth + 1) for step, each in _reversed(at))
    return None


def _said(place: _Place, value: Any) -> str:
    if isinstance(value, Decimal):
        return f"{_path(place)}: {value} is no number that JSON knows"
    what = f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
    return f"{_path(place)}: {what} has no form in JSON"


def _of_number(value: Any) -> str | None:
    if isinstance(value, float):
        return None if math.isfinite(value) else f"{value} is no number that JSON knows"
    try:
        int.__repr__(value)
    except ValueError:
        return "a whole number of too many digits"
    return None


def _odd_key(value: Any) -> Any:
    if not isinstance(value, dict):
        return None
    return next((k for k in value if not isinstance(k, str | int | float | None)), None)


def _reversed(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parts of a value, last one first, each with the step to it."""
    if isinstance(value, dict):
        for key in reversed(list(value)):
            yield _step(key), value[key]
    else:
        for n in range(len(value) - 1, -1, -1):
            yield f"[{n}]", value[n]


def _step(key: Any) -> str:
    name = str(key)
    if name.isidentifier() and len(name) <= _NAME:
        return f".{name}"
    return f"[{json.dumps(name if len(name) <= _NAME else f'{name[:_NAME]}…', ensure_ascii=False)}]"


def _path(place: _Place) -> str:
    steps = []
    while place is not None:
        steps.append(place[1])
        place = place[0]
    path = "$" + "".join(reversed(steps))
    return path if len(path) <= _LONGEST else f"{path[: _LONGEST // 2]}…{path[-_LONGEST // 2 :]}"
