"""Checks the arguments of public functions.

Each function raises TypeError for a wrong type and ValueError for an invalid value. The message
names the argument, the expected value and the given value.
"""

from __future__ import annotations

import functools
import inspect
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from types import FunctionType
from typing import Any

__all__ = [
    "a_flag",
    "a_function",
    "a_mapping",
    "a_moment",
    "a_number",
    "a_path",
    "a_real",
    "a_text",
    "an_instance",
    "any_of",
    "arguments",
    "is_coroutine_function",
    "seconds",
    "several",
    "texts",
]

_SHOWN = 60
_NESTED = 32  # nested partials that are unwrapped
_PLAIN = (str, bytes, bool, int, float, type(None), datetime, Decimal)


def _class_of(value: object) -> str:
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def _given(value: object) -> str:
    """Describe a value for a message; an object by its class, as its repr may show secrets."""
    if not isinstance(value, _PLAIN):
        return _class_of(value)
    try:
        shown = repr(value)
    except ValueError:  # an int with more digits than Python converts
        return "a very large number"
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def seconds(name: str, value: Any, *, above: bool = False, none: bool = False) -> None:
    """Check for a finite number of seconds, 0 or more.

    Args:
        name: the argument's name.
        value: its value.
        above: reject 0.
        none: accept None.
    """
    if value is None and none:
        return
    what = f"{name} must be a finite number of seconds{' above 0' if above else ', 0 or more'}"
    if not _is_number(value):
        raise TypeError(f"{what}, not {_given(value)}")
    # The loop's clock cannot represent a larger value.
    if not (value > 0 if above else value >= 0) or not value < 1e15:
        raise ValueError(f"{what}, not {_given(value)}")


def a_number(name: str, value: Any, *, least: int, none: bool = False) -> None:
    """Check for an int of at least ``least``."""
    if value is None and none:
        return
    what = f"{name} must be a whole number, at least {least}"
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{what}, not {_given(value)}")
    if value < least:
        raise ValueError(f"{what}, not {_given(value)}")


def a_real(name: str, value: Any, *, least: float | None = None) -> None:
    """Check for a finite int, float or Decimal of at least ``least``."""
    what = f"{name} must be a finite number{f', {least} or more' if least is not None else ''}"
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise TypeError(f"{what}, not {_given(value)}")
    if not math.isfinite(value) or (least is not None and value < least):
        raise ValueError(f"{what}, not {_given(value)}")


def a_text(name: str, value: Any, *, none: bool = False, empty: bool = False) -> None:
    """Check for a string, which may be empty only with ``empty``."""
    if value is None and none:
        return
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, not {_given(value)}")
    if not value and not empty:
        raise ValueError(f"{name} must not be empty")


def any_of(name: str, value: Any, choices: Sequence[str]) -> None:
    """Check for one of a few strings; the message lists them."""
    if not isinstance(value, str) or value not in choices:
        kind = ValueError if isinstance(value, str) else TypeError
        raise kind(f"{name} must be {_listed(choices)}, not {_given(value)}")


def _listed(choices: Sequence[str]) -> str:
    *most, last = map(repr, choices)
    return f"{', '.join(most)} or {last}"


def texts(name: str, value: Any) -> tuple[str, ...]:
    """Check for an iterable of strings, not a single string; return them."""
    what = f"{name} must be a list of strings"
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise TypeError(f"{what}, not {_given(value)}")
    found = tuple(value)
    for one in found:
        if not isinstance(one, str):
            raise TypeError(f"{what}, but contains {_given(one)}")
    return found


def several(name: str, value: Any, kind: Any, what: str) -> tuple[Any, ...]:
    """Check for an iterable of instances, not a single instance; return them.

    The message shows classes only, never values.

    Args:
        name: the argument's name.
        value: its value.
        kind: the class of each element, or a union of classes.
        what: the name of the elements in the message.
    """
    what = f"{name} must be a list of {what}"
    if isinstance(value, str | bytes | Mapping | kind) or not isinstance(value, Iterable):
        raise TypeError(f"{what}, not {_class_of(value)}")
    found = tuple(value)
    for one in found:
        if not isinstance(one, kind):
            raise TypeError(f"{what}, but contains {_class_of(one)}")
    return found


def arguments(name: str, value: Any) -> None:
    """Check for a program and its arguments as a sequence, not a single shell string."""
    what = f"{name} must be a sequence of arguments"
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise TypeError(f"{what}, not {_given(value)}")
    if not value:
        raise ValueError(f"{name} must name a program")
    for one in value:
        if not isinstance(one, str | os.PathLike):
            raise TypeError(f"{what}, but contains {_given(one)}")


def a_flag(name: str, value: Any) -> None:
    """Check for a bool."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, not {_given(value)}")


def a_moment(name: str, value: Any, *, none: bool = False) -> None:
    """Check for a datetime with a time zone."""
    if value is None and none:
        return
    if not isinstance(value, datetime):
        raise TypeError(f"{name} must be a datetime, not {_given(value)}")
    if value.tzinfo is None or value.utcoffset() is None:
        raise ValueError(f"{name} needs a time zone, as datetime.now(UTC) has")


def a_function(
    name: str, value: Any, *, none: bool = False, streams: bool = False, sync: bool = False
) -> None:
    """Check for a callable whose body runs when it is called, unlike that of a generator function.

    Args:
        name: the argument's name.
        value: its value.
        none: accept None.
        streams: accept an async generator function, because the caller iterates over the result.
        sync: reject a coroutine function, because the caller does not await the result.
    """
    if value is None and none:
        return
    if not callable(value):
        raise TypeError(f"{name} must be a function, not {_given(value)}")
    if (kind := _generator_kind(value, streams=streams)) is not None:
        raise TypeError(
            f"{name} must be a function that runs when it is called; this is {kind}, whose body"
            " would never run: remove its yield, or iterate over it in a function of your own"
        )
    if sync and is_coroutine_function(value):
        raise TypeError(f"{name} is not awaited, and this is a coroutine function")


def _generator_kind(function: Any, *, streams: bool) -> str | None:
    for form in _forms(function, through=True):
        flags = getattr(getattr(form, "__code__", None), "co_flags", 0)
        if flags & inspect.CO_ASYNC_GENERATOR:
            return None if streams else "an async generator function"
        # types.coroutine turns generator functions into coroutine functions.
        if flags & inspect.CO_GENERATOR and not flags & inspect.CO_ITERABLE_COROUTINE:
            return "a generator function"
    return None


def is_coroutine_function(function: Any) -> bool:
    """Whether a call returns a coroutine; partial functions and ``__call__`` are followed."""
    return any(inspect.iscoroutinefunction(form) for form in _forms(function))


def _forms(function: Any, *, through: bool = False) -> Iterator[Any]:
    """Yield a callable and the functions that it wraps: partials, bound methods, ``__call__``.

    The ``__call__`` of a class is left out, because calling the class makes an instance.

    Args:
        function: the callable.
        through: also follow ``__wrapped__`` of `functools.wraps`, unless the decorator is a
            coroutine function.
    """
    for _ in range(_NESTED):
        yield function
        if isinstance(function, functools.partial):
            function = function.func
        elif inspect.ismethod(function):
            function = function.__func__
        elif (
            through
            and callable(wrapped := getattr(function, "__wrapped__", None))
            and not inspect.iscoroutinefunction(function)
        ):
            function = wrapped
        else:
            break
    if not isinstance(function, type | FunctionType) and not inspect.isroutine(function):
        yield getattr(type(function), "__call__", None)  # noqa: B004  # not whether it has one


def a_mapping(name: str, value: Any, *, none: bool = False) -> None:
    """Check for a mapping whose keys are strings."""
    if value is None and none:
        return
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} must be a mapping, not {_given(value)}")
    for key in value:
        if not isinstance(key, str):
            raise TypeError(f"the keys of {name} must be strings, not {_given(key)}")


def a_path(name: str, value: Any, *, none: bool = False) -> None:
    """Check for a file system path."""
    if value is None and none:
        return
    if not isinstance(value, str | os.PathLike):
        raise TypeError(f"{name} must be a path, not {_given(value)}")
    text = os.fspath(value)
    if not text or (isinstance(text, str) and "\0" in text):
        raise ValueError(f"{name} must be a path, not {_given(text)}")


def an_instance(
    name: str,
    value: Any,
    kind: Any,
    what: str,
    *,
    none: bool = False,
    secret: bool = False,
) -> None:
    """Check for an instance of a class.

    Args:
        name: the argument's name.
        value: its value.
        kind: the class, or a union of classes.
        what: the expected value in the message, such as "a Buffer".
        none: accept None.
        secret: show only the class of the value.
    """
    if not (value is None and none) and not isinstance(value, kind):
        given = _class_of(value) if secret else _given(value)
        raise TypeError(f"{name} must be {what}, not {given}")
