"""Runs the checks of a conformance kit, and says which rule an implementation violates."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

__all__ = ["expect", "raises", "run_all"]

E = TypeVar("E", bound=BaseException)


def expect(fact: bool, rule: str) -> None:
    """Raise AssertionError with the rule if a fact does not hold; also under ``python -O``."""
    if not fact:
        raise AssertionError(rule)


async def raises(kind: type[E], call: Awaitable[object], rule: str) -> E:
    """Return the error that a call raises, which must be of a kind."""
    try:
        await call
    except kind as error:
        return error
    except Exception as error:
        raise AssertionError(f"{rule}; it raised {type(error).__name__}: {error}") from error
    raise AssertionError(f"{rule}; it raised nothing")


async def run_all(checks: Iterable[Callable[[], Awaitable[None]]], names: Iterable[str]) -> None:
    """Run checks one after another; an error of one carries its name as a note."""
    for check, name in zip(checks, names, strict=True):
        try:
            await check()
        except Exception as error:
            error.add_note(f"in the check {name}")
            raise
