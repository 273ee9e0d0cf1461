"""Checks, copies and encodes the arguments of a submit.

The payload is encoded once, so that it has the same bytes each time it is sent.

See rule S6 in docs/explanation/rules.md.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from pydantic import ValidationError

from arcp_client import _arguments as check
from arcp_client._wire import names
from arcp_client._wire.codec import snapshot
from arcp_client._wire.fields import Malformed
from arcp_client._wire.ids import new_id, time_text
from arcp_client._wire.messages import Submit
from arcp_client.models import Lease

__all__ = ["Submission", "is_own_key"]

_OWN = "auto-"
_KEY = 256
"""Characters of a key."""


def is_own_key(key: str | None) -> bool:
    """Whether this module generated the key for one call, so that no earlier job has the key."""
    return key is not None and key.startswith(_OWN)


class Submission(msgspec.Struct, frozen=True):
    """The checked and encoded arguments of one submit.

    Attributes:
        agent: the requested agent.
        key: the idempotency key.
        payload: the message's payload as JSON.
        needs: the feature that the submit needs, if any.
        fingerprint: hash of the payload; equal if the parameters and the keys are equal.
    """

    agent: str
    key: str
    payload: msgspec.Raw
    fingerprint: str
    needs: str | None = None

    @classmethod
    def of(
        cls,
        agent: str,
        input: Any,
        *,
        lease: Lease | Mapping[str, Sequence[str]] | None,
        expires_at: datetime | None,
        key: str | None,
        max_runtime: float | None,
        parent: str | None,
        work_id: str | None = None,
        pause_lease: bool = False,
    ) -> Submission:
        """Check and encode the arguments.

        Raises:
            TypeError, ValueError: an argument is invalid for every runtime; the message names it.
        """
        check.a_text("agent", agent)
        check.a_text("idempotency_key", key, none=True)
        check.seconds("max_runtime", max_runtime, above=True, none=True)
        check.a_text("parent", parent, none=True)
        check.a_text("work_id", work_id, none=True)
        check.a_flag("pause_lease", pause_lease)
        if pause_lease and expires_at is None:
            raise ValueError("pause_lease: the lease has no end; give expires_at")
        chosen = key if key is not None else cls.new_key()
        try:
            message = Submit(
                agent=agent,
                lease_request=_lease(lease),
                lease_constraints=_constraints(expires_at, pause_lease),
                idempotency_key=chosen,
                max_runtime_sec=None if max_runtime is None else math.ceil(max_runtime),
                parent_job_id=parent,
                extra={} if work_id is None else {names.WORK_ID: work_id},
            )
            _ = message.work_id  # checked
        except Malformed as error:
            raise ValueError(f"submit: {error}") from None
        # `input` is always sent, even as null: one runtime requires it.
        try:
            fields = {**message.wire(), "input": snapshot(input)}
        except ValueError as error:
            raise ValueError(f"input: {error}") from error
        payload = msgspec.json.encode(fields)
        return cls(
            agent=agent,
            key=chosen,
            payload=msgspec.Raw(payload),
            fingerprint=hashlib.sha256(payload).hexdigest(),
            needs=(names.ASKING if pause_lease else names.WORKS if work_id is not None else None),
        )

    @staticmethod
    def new_key() -> str:
        """Make a key for one call."""
        return f"{_OWN}{new_id()}"

    def attempt(self, n: int) -> Submission:
        """Return the submit of the n-th retry; its key is this one's and the number.

        Raises:
            ValueError: the key is too long.
        """
        key = f"{self.key}~{n}"
        if len(key) > _KEY:
            raise ValueError(
                f"idempotency_key: with retries, at most {_KEY - len(f'~{n}')} characters"
            )
        fields = msgspec.json.decode(self.payload, type=dict[str, msgspec.Raw])
        payload = msgspec.json.encode({**fields, "idempotency_key": key})
        return msgspec.structs.replace(
            self,
            key=key,
            payload=msgspec.Raw(payload),
            fingerprint=hashlib.sha256(payload).hexdigest(),
        )


def _lease(lease: Lease | Mapping[str, Sequence[str]] | None) -> dict[str, list[str]] | None:
    if lease is None:
        return None
    if not isinstance(lease, Lease):
        if not isinstance(lease, Mapping):
            raise TypeError(
                "lease must be a Lease, or a mapping of namespaces to lists of patterns"
            )
        check.a_mapping("lease", lease)
        grants = {
            name: check.texts(f"lease: the value of {name!r:.60}", patterns)
            for name, patterns in lease.items()
        }
        try:
            lease = Lease(grants)
        except ValidationError as error:
            raise ValueError(f"lease: {error.errors()[0]['msg']}") from None
    return {name: list(lease[name]) for name in lease.namespaces()}


def _constraints(expires_at: datetime | None, pause: bool) -> dict[str, Any] | None:
    check.a_moment("expires_at", expires_at, none=True)
    if expires_at is None:
        return None
    constraints: dict[str, Any] = {"expires_at": time_text(expires_at.astimezone(UTC))}
    return constraints | {names.PAUSES: True} if pause else constraints
