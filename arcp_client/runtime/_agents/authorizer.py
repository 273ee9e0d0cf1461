"""Checks operations against a job's lease and charges its budget (§9.3, §9.5, §9.6)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

from arcp_client._wire import names
from arcp_client.errors import BudgetExhausted, LeaseExpired, PermissionDenied
from arcp_client.runtime._jobs.job import ServerJob
from arcp_client.runtime._jobs.outcomes import LEASE_RAN_OUT
from arcp_client.runtime._leases.grant import Budget, NoRoom

__all__ = ["Authorizer"]

_log = logging.getLogger("arcp_client.runtime")

_REMAINING = "cost.budget.remaining"


class Authorizer:
    """Authorizes the operations of one job and charges its costs.

    Args:
        job: the job.
        holder: returns the job that owns a budget, because each job emits the metrics of its own
            budget.
    """

    def __init__(self, job: ServerJob, holder: Callable[[Budget], ServerJob | None]) -> None:
        self._job = job
        self._holder = holder

    def authorize(self, capability: str, target: str) -> None:
        """Allow an operation, or raise; see `JobContext.authorize`."""
        job = self._job
        if self._has_expired():
            if job.violated is None:
                job.violated = LEASE_RAN_OUT
                _log.warning(
                    "job %s (%s) continued after its lease expired",
                    job.id,
                    job.agent,
                    extra=job.log_fields,
                )
            raise LeaseExpired("the lease has expired", code=names.LEASE_EXPIRED, job_id=job.id)
        try:
            job.budget.check()
        except NoRoom as spent:
            raise BudgetExhausted(str(spent), code=names.BUDGET_EXHAUSTED, job_id=job.id) from None
        if not job.grant.allows(capability, target):
            raise PermissionDenied(f"the lease does not cover {capability} on {target[:200]!r}")

    def _has_expired(self) -> bool:
        job = self._job
        if job.grant.expires_at is None or job.deadline is None:
            return False
        if job.paused_at is not None:
            return job.paused_at >= job.deadline
        # The loop's clock cannot be set back; the wall clock includes time that the machine slept.
        return (
            asyncio.get_running_loop().time() >= job.deadline
            or datetime.now(UTC) >= job.grant.expires_at
        )

    def metric(self, body: dict[str, Any]) -> None:
        """Emit a metric. In the same step, charge its cost and emit the remaining budget."""
        name, unit = body.get("name"), body.get("unit")
        if not isinstance(name, str) or not name.startswith("cost.") or not isinstance(unit, str):
            self._job.emit("metric", body)
            return
        if self._job.budget.available(unit) is None:
            self._job.emit("metric", body)
            return
        if name == _REMAINING:
            raise ValueError(f"only the runtime emits {_REMAINING}")
        amount = _decimal(body.get("value"))
        if amount < 0:
            raise ValueError(f"a cost must not be negative: {name} {amount} {unit}")
        self._job.emit("metric", body)
        for budget in self._job.budget.charge(unit, amount):
            job = self._holder(budget)
            if job is not None and not job.ended:
                left = budget.remaining[unit]
                job.emit("metric", {"name": _REMAINING, "value": left, "unit": unit})


def _decimal(value: Any) -> Decimal:
    # Converted through text: 0.1 becomes exactly one tenth, not its binary approximation.
    text = bytes(value).decode() if isinstance(value, msgspec.Raw) else str(value)
    try:
        return Decimal(text)
    except InvalidOperation:
        raise ValueError(f"a cost must be a number, not {text}") from None
