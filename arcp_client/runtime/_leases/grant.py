"""Parses a requested lease and checks operations, expiry and budget against it (§9).

This module reads no clock and needs no event loop: callers pass the current time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Context, Decimal
from typing import Any

from arcp_client._wire import names
from arcp_client._wire.ids import parse_utc, time_text
from arcp_client._wire.messages import parse_amount
from arcp_client.errors import InvalidRequest, LeaseSubsetViolation
from arcp_client.models import Lease
from arcp_client.runtime._leases.patterns import (
    Effort,
    Targets,
    TooMuch,
    normal_name,
    normal_path,
    normal_url,
)

__all__ = ["Budget", "Grant", "NoRoom", "oversize", "parse_grant"]

_NAMESPACE = re.compile(r"[a-z][a-z0-9_-]*(\.[a-z0-9_-]+)*")

_EXACT = Context(prec=512)  # the default context rounds a difference to 28 digits

BUDGET = names.BUDGETS
MODELS = names.MODEL_USE

_NAMES = ("tool.", "model.", "agent.")

MAX_PATTERN = 512
_EFFORT = 18_000
"""Some milliseconds."""


class NoRoom(Exception):
    """A budget counter is exhausted; ``currency`` names it."""

    def __init__(self, currency: str) -> None:
        super().__init__(f"the {currency} budget is exhausted")
        self.currency = currency


class Budget:
    """The counters of one job, as exact decimals. A child's costs are charged to all its parents.

    Args:
        limits: currency to its amount at acceptance.
        parent: the budget of the job that delegated this one.
    """

    def __init__(self, limits: Mapping[str, Decimal], parent: Budget | None = None) -> None:
        self.remaining = dict(limits)
        self.parent = parent

    def charge(self, currency: str, amount: Decimal) -> Iterable[Budget]:
        """Subtract an amount from each counter of the chain; return the budgets that have one."""
        charged = []
        budget: Budget | None = self
        while budget is not None:
            if currency in budget.remaining:
                budget.remaining[currency] = _EXACT.subtract(budget.remaining[currency], amount)
                charged.append(budget)
            budget = budget.parent
        return charged

    def available(self, currency: str) -> Decimal | None:
        """Return the lowest remaining amount in the chain; ``None`` if there is no bound."""
        left = [b.remaining[currency] for b in self.chain() if currency in b.remaining]
        return min(left, default=None)

    def check(self) -> None:
        """Raise NoRoom if any counter of the chain is exhausted."""
        for budget in self.chain():
            for currency, left in budget.remaining.items():
                if left <= 0:
                    raise NoRoom(currency)

    def chain(self) -> Iterable[Budget]:
        """Yield this budget, its parent's, and so on."""
        budget: Budget | None = self
        while budget is not None:
            yield budget
            budget = budget.parent


class Grant:
    """An effective lease.

    Attributes:
        lease: namespace to patterns, as sent to clients.
        expires_at: the time from which every operation is refused, or ``None``.
        limits: the budgeted amounts.
        pauses: open questions of the job stop the clock of ``expires_at`` (an extension).
        size: its approximate size in a message, in bytes.
    """

    def __init__(self, lease: Lease, expires_at: datetime | None, pauses: bool = False) -> None:
        self.lease = lease
        self.expires_at = expires_at
        self.pauses = pauses
        self.size = sum(len(p) + 4 for n in lease.namespaces() for p in lease[n])
        self.limits = dict(_amount(text) for text in lease.get(BUDGET))

    def allows(self, namespace: str, target: str) -> bool:
        """Whether a pattern covers an operation on the target."""
        plain = _target(namespace, target)
        if plain is None:
            return False
        patterns = self.lease.get(namespace)
        return plain in patterns or Targets(namespace, [plain]).uncovered(patterns) is None

    def wire(self) -> dict[str, list[str]]:
        """Return the lease as sent in messages."""
        return {name: list(self.lease[name]) for name in self.lease.namespaces()}

    def wire_constraints(self) -> dict[str, Any] | None:
        """Return ``lease_constraints`` as sent in messages."""
        if self.expires_at is None:
            return None
        constraints: dict[str, Any] = {"expires_at": time_text(self.expires_at)}
        if self.pauses:
            constraints[names.PAUSES] = True
        return constraints

    def _check_inside(self, namespace: str, wanted: Sequence[str], effort: Effort) -> None:
        held = self.lease.get(namespace)
        same = set(held)
        asked = [pattern for pattern in wanted if pattern not in same]
        if not asked:
            return
        try:
            # A pattern without stars covers only itself, and equal patterns are excluded already.
            wide = [pattern for pattern in held if "*" in pattern or "?" in pattern]
            beyond = Targets(namespace, asked, effort).uncovered(wide)
        except TooMuch:
            raise InvalidRequest(
                "the delegated lease is too long to be compared with its parent's: ask for fewer"
                " or shorter patterns, or for the parent's own"
            ) from None
        if beyond is not None:
            raise LeaseSubsetViolation(
                f"{namespace} {beyond!r} is not covered by the delegating lease"
            )

    def derive(self, child: Grant, budget: Budget) -> Grant:
        """Return the child's effective grant, which does not exceed this grant or its expiry.

        Raises:
            LeaseSubsetViolation: the child's grant exceeds this one, or the remaining ``budget``
                (§9.4).
            InvalidRequest: comparing the two would take too long.
        """
        effort = Effort(_EFFORT)
        for namespace in child.lease.namespaces():
            if namespace != BUDGET:
                self._check_inside(namespace, child.lease[namespace], effort)
        for currency, amount in child.limits.items():
            left = budget.available(currency)
            if left is not None and amount > left:
                raise LeaseSubsetViolation(
                    f"{amount} {currency} is more than the {max(left, Decimal(0))} that remain"
                )
        if self.expires_at is None:
            return child
        if child.expires_at is not None and child.expires_at > self.expires_at:
            raise LeaseSubsetViolation("the delegated lease would expire after its parent's")
        return Grant(child.lease, child.expires_at or self.expires_at, child.pauses)


def parse_grant(
    request: Mapping[str, Any] | None,
    constraints: Mapping[str, Any] | None,
    now: datetime,
    *,
    patterns: int = 256,
    size: int = 128 * 1024,
) -> Grant:
    """Validate a requested lease (§9.2, §9.5, §9.6) and its size.

    Args:
        request: namespace to patterns.
        constraints: may hold ``expires_at``.
        now: the current time.
        patterns: maximum number of patterns in all, and of namespaces.
        size: maximum size of all namespaces and patterns together, in bytes.

    Raises:
        InvalidRequest: the lease is malformed, too large, or has already expired.
    """
    request = request or {}
    beyond = oversize(request, patterns, size)
    if beyond is not None:
        raise InvalidRequest(beyond)
    grants: dict[str, tuple[str, ...]] = {}
    for namespace, wanted in request.items():
        if not _NAMESPACE.fullmatch(namespace):
            raise InvalidRequest(f"{namespace[:80]!r} is not a lease namespace")
        for pattern in wanted:
            _check(namespace, pattern)
        grants[namespace] = tuple(wanted)
    if BUDGET in grants:
        currencies = [_amount(text)[0] for text in grants[BUDGET]]
        if len(set(currencies)) != len(currencies):
            raise InvalidRequest("cost.budget names a currency twice")
    bounds = constraints or {}
    pauses = bounds.get(names.PAUSES, False)
    if not isinstance(pauses, bool):
        raise InvalidRequest(f"lease_constraints: {names.PAUSES}: must be true or false")
    return Grant(Lease(grants), _expiry(bounds.get("expires_at"), now), pauses)


def oversize(lease: Mapping[str, Sequence[str]], patterns: int, size: int) -> str | None:
    """Describe the bound that a lease exceeds; ``None`` if it exceeds none."""
    if len(lease) > patterns or sum(map(len, lease.values())) > patterns:
        return f"a lease may have at most {patterns} patterns in all"
    texts = (text for name, wanted in lease.items() for text in (name, *wanted))
    if sum(len(text.encode("utf-8", "surrogatepass")) for text in texts) > size:
        return f"the namespaces and patterns of a lease may have at most {size} bytes"
    return None


def _check(namespace: str, pattern: str) -> None:
    if not pattern or len(pattern) > MAX_PATTERN:
        raise InvalidRequest(f"a {namespace} pattern must have 1 to {MAX_PATTERN} characters")
    if namespace == BUDGET:
        _amount(pattern)
    elif namespace.startswith("fs.") and normal_path(pattern) != pattern:
        raise InvalidRequest(f"{namespace} {pattern!r} is not a plain path pattern")


def _amount(text: str) -> tuple[str, Decimal]:
    try:
        return parse_amount(text)
    except ValueError as error:
        raise InvalidRequest(str(error)) from None


def _expiry(value: Any, now: datetime) -> datetime | None:
    if value is None:
        return None
    moment = parse_utc(value) if isinstance(value, str) else None
    if moment is None:
        raise InvalidRequest("expires_at must be a time in UTC such as 2026-05-13T23:42:00Z")
    if moment <= now:
        raise InvalidRequest("expires_at is in the past")
    return moment


def _target(namespace: str, target: str) -> str | None:
    if namespace.startswith("fs."):
        return normal_path(target)
    if namespace.startswith("net."):
        return normal_url(target)
    if namespace.startswith(_NAMES):
        return normal_name(target)
    return target or None
