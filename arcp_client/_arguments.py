"""Checks the arguments of public functions, and raises errors that say what was expected.

A wrong type is a TypeError, a value that no call accepts a ValueError. Both name the argument, the
expected value and the given one.
"""

from __future__ import annotations

import functools
import inspect
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
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
_NESTED = 32  # partials in partials
_PLAIN = (str, bytes, bool, int, float, type(None), datetime, Decimal)


def _class_of(value: object) -> str:
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def _given(value: object) -> str:
    """What was given, in a few words; of an object its class, since a repr may say anything."""
    if not isinstance(value, _PLAIN):
        return _class_of(value)
    try:
        shown = repr(value)
    except ValueError:  # an int of more digits than Python writes
        return "a very large number"
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def seconds(name: str, value: Any, *, above: bool = False, none: bool = False) -> None:
    """It is a finite number of seconds, 0 or more.

    Args:
        name: what the argument is called.
        value: what was given.
        above: 0 is none.
        none: None will do.
    """
    if value is None and none:
        return
    what = f"{name} is a number of seconds{' above 0' if above else ', 0 or more'}"
    if not _is_number(value):
        raise TypeError(f"{what}, not {_given(value)}")
    # Of an int that is no float either, the clock would know nothing.
    if not (value > 0 if above else value >= 0) or not value < 1e15:
        raise ValueError(f"{what}, and finite, not {_given(value)}")


def a_number(name: str, value: Any, *, least: int, none: bool = False) -> None:
    """It is a whole number, at least so large."""
    if value is None and none:
        return
    what = f"{name} is a whole number, at least {least}"
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{what}, not {_given(value)}")
    if value < least:
        raise ValueError(f"{what}, not {_given(value)}")


def a_real(name: str, value: Any, *, least: float | None = None) -> None:
    """It is a finite number of any kind, at least so large."""
    what = f"{name} is a finite number{f', {least} or more' if least is not None else ''}"
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise TypeError(f"{what}, not {_given(value)}")
    if not math.isfinite(value) or (least is not None and value < least):
        raise ValueError(f"{what}, not {_given(value)}")


def a_text(name: str, value: Any, *, none: bool = False, empty: bool = False) -> None:
    """It is a text, and not an empty one unless that will do."""
    if value is None and none:
        return
    if not isinstance(value, str):
        raise TypeError(f"{name} is a text, not {_given(value)}")
    if not value and not empty:
        raise ValueError(f"{name} is a text that is not empty")


def any_of(name: str, value: Any, choices: Sequence[str]) -> None:
    """It is one of a few texts; the message lists them."""
    if not isinstance(value, str) or value not in choices:
        kind = ValueError if isinstance(value, str) else TypeError
        raise kind(f"{name} is {_listed(choices)}, not {_given(value)}")


def _listed(choices: Sequence[str]) -> str:
    *most, last = map(repr, choices)
    return f"{', '.join(most)} or {last}"


def texts(name: str, value: Any) -> tuple[str, ...]:
    """It is several texts, and not one: gives them."""
    what = f"{name} is a list of texts"
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise TypeError(f"{what}, not {_given(value)}")
    found = tuple(value)
    for one in found:
        if not isinstance(one, str):
            raise TypeError(f"{what}, and {_given(one)} is none")
    return found


def several(name: str, value: Any, kind: Any, what: str) -> tuple[Any, ...]:
    """They are several of some classes, and not one: gives them. What was given is not shown.

    Args:
        name: what the argument is called.
        value: what was given.
        kind: the class of each, or several.
        what: what they are called in the message.
    """
    what = f"{name} is a list of {what}"
    if isinstance(value, str | bytes | Mapping | kind) or not isinstance(value, Iterable):
        raise TypeError(f"{what}, not {_class_of(value)}")
    found = tuple(value)
    for one in found:
        if not isinstance(one, kind):
            raise TypeError(f"{what}, and {_class_of(one)} is none")
    return found


def arguments(name: str, value: Any) -> None:
    """They are a program and its arguments, and not one string for a shell."""
    what = f"{name} is a sequence of arguments"
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise TypeError(f"{what}, not {_given(value)}")
    if not value:
        raise ValueError(f"{name} must name a program")
    for one in value:
        if not isinstance(one, str | os.PathLike):
            raise TypeError(f"{what}, and {_given(one)} is none")


def a_flag(name: str, value: Any) -> None:
    """It is True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} is True or False, not {_given(value)}")


def a_moment(name: str, value: Any, *, none: bool = False) -> None:
    """It is a datetime that knows its time zone."""
    if value is None and none:
        return
    if not isinstance(value, datetime):
        raise TypeError(f"{name} is a datetime, not {_given(value)}")
    if value.tzinfo is None or value.utcoffset() is None:
        raise ValueError(f"{name} needs a time zone, such as datetime.now(UTC) has")


def a_function(
    name: str, value: Any, *, none: bool = False, streams: bool = False, sync: bool = False
) -> None:
    """It can be called, and a call of it runs it.

    Args:
        name: what the argument is called.
        value: what was given.
        none: None will do.
        streams: so will an async generator function, since the caller iterates over the result.
        sync: a coroutine function will not, since the caller does not await.
    """
    if value is None and none:
        return
    if not callable(value):
        raise TypeError(f"{name} is a function, not {_given(value)}")
    if (kind := _generator_kind(value, streams=streams)) is not None:
        raise TypeError(
            f"{name} is a function that runs when it is called; this is {kind}, whose body would"
            " never run: remove its yield, or iterate over it in a function of your own"
        )
    if sync and is_coroutine_function(value):
        raise TypeError(f"{name} is not awaited, and this is a coroutine function")


def _generator_kind(function: Any, *, streams: bool) -> str | None:
    for form in _forms(function, through=True):
        if inspect.isasyncgenfunction(form):
            return None if streams else "an async generator function"
        if inspect.isgeneratorfunction(form) and not _is_awaitable_generator(form):
            return "a generator function"
    return None


def is_coroutine_function(function: Any) -> bool:
    """Whether a call of it makes a coroutine, also through partial functions and ``__call__``."""
    return any(inspect.iscoroutinefunction(form) for form in _forms(function))


def _forms(function: Any, *, through: bool = False) -> Iterator[Any]:
    """A callable, and what a call of it calls: the inside of partials, bound methods, ``__call__``.

    A class is called to make an instance, so its ``__call__`` is not among them.

    Args:
        function: the callable.
        through: also what `functools.wraps` names as decorated, unless the decorator awaits it.
    """
    for _ in range(_NESTED):
        yield function
        if isinstance(function, functools.partial):
            function = function.func
        elif inspect.ismethod(function):
            function = function.__func__
        elif (
            through
            and not inspect.iscoroutinefunction(function)
            and callable(wrapped := getattr(function, "__wrapped__", None))
        ):
            function = wrapped
        else:
            break
    if not isinstance(function, type) and not inspect.isroutine(function):
        yield getattr(type(function), "__call__", None)  # noqa: B004  # not whether it has one


def _is_awaitable_generator(function: Any) -> bool:
    # types.coroutine makes coroutines of generator functions.
    code = getattr(function, "__code__", None)
    return code is not None and bool(code.co_flags & inspect.CO_ITERABLE_COROUTINE)


def a_mapping(name: str, value: Any, *, none: bool = False) -> None:
    """It is a mapping of texts to anything."""
    if value is None and none:
        return
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} is a mapping, not {_given(value)}")
    for key in value:
        if not isinstance(key, str):
            raise TypeError(f"{name} is a mapping of texts, and {_given(key)} is none")


def a_path(name: str, value: Any, *, none: bool = False) -> None:
    """It is a path of the file system."""
    if value is None and none:
        return
    if not isinstance(value, str | os.PathLike):
        raise TypeError(f"{name} is a path, not {_given(value)}")
    text = os.fspath(value)
    if not text or (isinstance(text, str) and "\0" in text):
        raise ValueError(f"{name} is a path, not {_given(text)}")


def an_instance(
    name: str,
    value: Any,
    kind: Any,
    what: str,
    *,
    none: bool = False,
    secret: bool = False,
) -> None:
    """It is of a class.

    Args:
        name: what the argument is called.
        value: what was given.
        kind: the class, or several.
        what: what it is called in the message.
        none: None will do.
        secret: what was given is not shown.
    """
    if not isinstance(value, kind) and not (value is None and none):
        raise TypeError(f"{name} is {what}, not {_class_of(value) if secret else _given(value)}")
