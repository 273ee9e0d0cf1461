"""Maps idempotency keys to jobs (§7.2)."""

from __future__ import annotations

import asyncio
import copy
import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from arcp_client._budget import ByteBudget
from arcp_client._wire.ids import now_text, parse_time
from arcp_client._wire.stamp import canonical, payload_bytes
from arcp_client.errors import DuplicateKey
from arcp_client.runtime._jobs.shares import Shares
from arcp_client.runtime._log.entries import KeyState
from arcp_client.runtime._log.journal import Journal

__all__ = ["IdempotencyKeys", "KeyEntry", "fingerprint"]

MIB = 1024 * 1024

# These fields identify the request; they are not parameters of the job.
_NOT_PARAMETERS = frozenset({"idempotency_key", "request_id"})


def fingerprint(payload: Mapping[str, Any]) -> bytes:
    """Hash a submit's parameters, independent of key order and of nulls."""
    named = {k: v for k, v in payload.items() if v is not None and k not in _NOT_PARAMETERS}
    return hashlib.sha256(canonical(named)).digest()


class KeyEntry:
    """The submit that used a key first.

    Attributes:
        parameters: the fingerprint of the submit.
        payload: the acceptance, once there is one.
        at: the time at which the submit was received, by the loop's clock.
    """

    def __init__(self, parameters: bytes, at: float) -> None:
        self.parameters = parameters
        self.payload: dict[str, Any] | None = None
        self.at = at
        self.size = 0
        self._error: BaseException | None = None
        self._waiters: list[asyncio.Future[None]] = []

    async def wait(self) -> dict[str, Any]:
        """Wait for the acceptance and return it.

        Raises:
            RequestError: the submit was refused.
        """
        if self.payload is None and self._error is None:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter
        if self.payload is None:
            assert self._error is not None
            raise copy.copy(self._error)
        return self.payload

    def settle(self, payload: dict[str, Any]) -> None:
        """Record the acceptance of the submit."""
        self.payload = payload
        self._release()

    def fail(self, error: BaseException) -> None:
        """Record the refusal of the submit."""
        self._error = error
        self._release()

    def _release(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()


class IdempotencyKeys:
    """The idempotency keys of all principals.

    A key expires when it is older than the window. When there are too many keys, the oldest key of
    the principal with the most keys is dropped. A key whose submit is pending is never dropped.
    """

    def __init__(
        self, window: float, count: int, journal: Journal | None = None, size: int = 64 * MIB
    ) -> None:
        self._held = ByteBudget(size)
        self._window = window
        self._count = count
        self._journal = journal
        self._known: dict[tuple[str, str], KeyEntry] = {}
        self._of: dict[str, dict[str, None]] = {}
        self._shares = Shares()

    def __len__(self) -> int:
        return len(self._known)

    def find(self, principal: str, key: str, parameters: bytes) -> KeyEntry | None:
        """Return the entry of a key, even if its submit is pending.

        Raises:
            DuplicateKey: the key was used before with other parameters.
        """
        self._forget()
        known = self._known.get((principal, key))
        if known is not None and known.parameters != parameters:
            raise DuplicateKey("the idempotency key was used before with other parameters")
        return known

    def begin(self, principal: str, key: str, parameters: bytes) -> KeyEntry:
        """Reserve a key for a pending submit."""
        entry = KeyEntry(parameters, asyncio.get_running_loop().time())
        self._add(principal, key, entry)
        return entry

    def _add(self, principal: str, key: str, entry: KeyEntry) -> None:
        self._known[principal, key] = entry
        theirs = self._of.setdefault(principal, {})
        if key not in theirs:
            theirs[key] = None
            self._shares.add(principal)

    def _remove(self, principal: str, key: str) -> KeyEntry | None:
        entry = self._known.pop((principal, key), None)
        if entry is not None:
            self._held.release(entry.size)
            theirs = self._of[principal]
            del theirs[key]
            self._shares.remove(principal)
            if not theirs:
                del self._of[principal]
        return entry

    def settle(self, principal: str, key: str, payload: dict[str, Any]) -> None:
        """Record the acceptance; from now on the key leads to its job."""
        entry = self._known.get((principal, key))
        if entry is None:
            return
        entry.settle(payload)
        accepted = payload_bytes({k: v for k, v in payload.items() if k != "credentials"})
        self._hold(entry, len(key) + len(accepted))
        if self._journal is not None:
            self._journal.put(KeyState(principal, key, entry.parameters, accepted, now_text()))

    def _hold(self, entry: KeyEntry, size: int) -> None:
        entry.size = size
        self._held.add(size)

    def restore(self, state: KeyState) -> None:
        """Restore a stored key."""
        moment = parse_time(state.at)
        if state.accepted is None or moment is None:
            return
        age = (datetime.now(UTC) - moment).total_seconds()
        entry = KeyEntry(state.parameters, asyncio.get_running_loop().time() - age)
        entry.payload = json.loads(state.accepted)
        self._add(state.principal, state.key, entry)
        self._hold(entry, len(state.key) + len(state.accepted))

    def drop(self, principal: str, key: str, error: BaseException) -> None:
        """Release the key of a refused submit."""
        entry = self._remove(principal, key)
        if entry is not None:
            if entry.payload is not None and self._journal is not None:
                self._journal.put(KeyState(principal, key))
            entry.fail(error)

    def _forget(self) -> None:
        oldest = asyncio.get_running_loop().time() - self._window
        while self._known:
            name, entry = next(iter(self._known.items()))
            if entry.at >= oldest or entry.payload is None:
                break
            self._forget_one(*name)
        while len(self._known) > self._count or self._held.over:
            principal = self._shares.largest()
            key = next((k for k in self._of[principal] if self._is_settled(principal, k)), None)
            if key is None:
                break
            self._forget_one(principal, key)

    def _is_settled(self, principal: str, key: str) -> bool:
        return self._known[principal, key].payload is not None

    def _forget_one(self, principal: str, key: str) -> None:
        self._remove(principal, key)
        if self._journal is not None:
            self._journal.put(KeyState(principal, key))
