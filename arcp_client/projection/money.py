"""Computes the remaining amount, rate and time of a budget in one currency (§9.6)."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Context, Decimal

from arcp_client._wire.messages import parse_amount
from arcp_client.models import Lease

__all__ = ["WINDOW", "Account", "Meter", "amount_of", "budgeted"]

WINDOW = 60.0
"""Time span for measuring a burn rate, in seconds."""

_MOST = 10**15  # larger numbers are not plausible amounts
_EXACT = Context(prec=64)


@dataclass(frozen=True, slots=True)
class Meter:
    """The spending of a job in one currency (§9.6).

    Attributes:
        currency: such as ``USD``.
        granted: the budget at the start; ``None`` if the lease does not bound it.
        left: the remaining amount in the newest report, less later costs; ``None`` if unbounded.
        spent: the known costs: those of the job, and those of children charged to the job's budget.
        rate: spending per second, over the last minute, or over the shorter time since the first
            event, but at least ten seconds.
        seconds_left: seconds until the budget is exhausted at this rate; ``None`` if it never is.
    """

    currency: str
    granted: Decimal | None = None
    left: Decimal | None = None
    spent: Decimal = Decimal(0)
    rate: float = 0.0
    seconds_left: float | None = None


class Account:
    """Amounts in one currency, and their times by the second."""

    __slots__ = ("anchored", "granted", "left", "recent", "spent")

    def __init__(self, left: Decimal | None) -> None:
        self.granted: Decimal | None = None
        self.left = left
        self.spent = Decimal(0)
        self.anchored = False
        self.recent: deque[tuple[int, Decimal]] = deque(maxlen=2 * int(WINDOW))

    def grant(self, granted: Decimal) -> None:
        """Set the bound of the lease. Only the first call has an effect."""
        if self.granted is None:
            self.granted = granted
            if self.left is None:
                self.left = _EXACT.subtract(granted, self.spent)

    def spend(self, amount: Decimal, at: float | None) -> None:
        """Add a cost of the job itself."""
        self.spent = _EXACT.add(self.spent, amount)
        if self.left is not None:
            self.left = _EXACT.subtract(self.left, amount)
        self._note(amount, at)

    def report(self, left: Decimal, at: float | None) -> None:
        """Set the remaining amount. If it is lower than computed, other jobs spent the difference.

        Such jobs are children of this job. The time of their cost is known only if no event is
        missing since the previous report.
        """
        unseen = Decimal(0) if self.left is None else _EXACT.subtract(self.left, left)
        if unseen > 0:
            self.spent = _EXACT.add(self.spent, unseen)
            self._note(unseen, at if self.anchored else None)
        self.left = left
        self.anchored = True

    def _note(self, amount: Decimal, at: float | None) -> None:
        if at is None or not amount:
            return
        second = math.floor(at)
        if self.recent and self.recent[-1][0] == second:
            amount = _EXACT.add(amount, self.recent.pop()[1])
        self.recent.append((second, amount))

    def meter(self, currency: str, now: float | None, span: float) -> Meter:
        """Return the meter, with the rate over the ``span`` seconds up to ``now``."""
        rate = 0.0
        if now is not None:
            burnt = sum(float(much) for second, much in self.recent if -1 < now - second < WINDOW)
            rate = burnt / span
        lasts: float | None = None
        if self.left is not None and self.left <= 0:
            lasts = 0.0
        elif self.left is not None and rate > 0:
            seconds = float(self.left) / rate
            lasts = seconds if math.isfinite(seconds) else None
        return Meter(currency, self.granted, self.left, self.spent, rate, lasts)


def budgeted(lease: Lease) -> Iterable[tuple[str, Decimal]]:
    """Yield the currencies that a lease bounds, each with its amount."""
    for text in lease.get("cost.budget"):
        try:
            yield parse_amount(text)
        except ValueError:  # a runtime may grant forms outside of the specification
            continue


def amount_of(value: float | Decimal) -> Decimal | None:
    """Convert a metric's value through text, so that 0.1 becomes exactly one tenth.

    A `Decimal` has the digits that the agent sent, and keeps them.
    """
    if isinstance(value, bool):
        return None
    amount = Decimal(value if isinstance(value, Decimal) else str(value))
    return amount if amount.is_finite() and abs(amount) <= _MOST else None
