"""Keeps closed questions for a limited time: for late answers and later jobs of the same work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

from arcp_client._budget import ByteBudget
from arcp_client._wire.ids import parse_time
from arcp_client.runtime._dialogue.question import AskedQuestion
from arcp_client.runtime._jobs.shares import Shares
from arcp_client.runtime.limits import Limits

__all__ = ["ClosedQuestions"]


class ClosedQuestions:
    """The closed questions of all principals, oldest first.

    If there are too many, the oldest question of the principal with the most is dropped.

    Args:
        limits: the number, the size and the age.
        forget: called with each dropped question.
    """

    def __init__(self, limits: Limits, forget: Callable[[AskedQuestion], None]) -> None:
        self._limits = limits
        self._forget = forget
        self._of: dict[str, dict[str, AskedQuestion]] = {}
        self._at: dict[AskedQuestion, float] = {}
        self._held = ByteBudget(limits.answer_bytes)
        self._shares = Shares()

    def __len__(self) -> int:
        return len(self._at)

    def add(self, question: AskedQuestion) -> None:
        """Keep a question that was closed."""
        now = asyncio.get_running_loop().time()
        stored = question.stored
        closed_at = parse_time(stored.closed_at)
        age = 0.0 if closed_at is None else (datetime.now(UTC) - closed_at).total_seconds()
        self._of.setdefault(stored.principal, {})[question.id] = question
        self._at[question] = now - max(age, 0.0)
        self._held.add(stored.size)
        self._shares.add(stored.principal)
        self._prune(now)

    def _prune(self, now: float) -> None:
        limits = self._limits
        while self._at:
            oldest, at = next(iter(self._at.items()))
            if now - at <= limits.answer_window:
                break
            self._drop(oldest)
        while len(self._at) > limits.answers or self._held.over:
            theirs = self._of[self._shares.largest()]
            self._drop(next(iter(theirs.values())))

    def _drop(self, question: AskedQuestion) -> None:
        stored = question.stored
        theirs = self._of[stored.principal]
        del theirs[question.id]
        if not theirs:
            del self._of[stored.principal]
        del self._at[question]
        self._held.release(stored.size)
        self._shares.remove(stored.principal)
        self._forget(question)
