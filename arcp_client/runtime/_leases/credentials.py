"""Issues credentials for accepted jobs and revokes them when the jobs end (§9.8)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, runtime_checkable

from arcp_client._log_fields import log_fields
from arcp_client._tasks import TaskOwner, pass_on
from arcp_client._wire import names
from arcp_client.errors import RequestError, request_error
from arcp_client.models import Credential, Lease
from arcp_client.runtime._leases.grant import BUDGET, MODELS, Grant
from arcp_client.runtime._log.entries import CredentialState
from arcp_client.runtime._log.journal import Journal

__all__ = ["Provision", "Provisioner", "Vault", "credential_wire"]

_log = logging.getLogger("arcp_client.runtime")

_FIRST_RETRY = 0.1
_LAST_RETRY = 60.0


@dataclass(frozen=True, slots=True)
class Provision:
    """The job that credentials are requested for."""

    job_id: str
    principal: str
    agent: str
    lease: Lease
    expires_at: datetime | None


@runtime_checkable
class Provisioner(Protocol):
    """Issues and revokes credentials, for example at a gateway for models."""

    async def issue(self, wanted: Provision) -> Sequence[Credential]:
        """Issue new credentials for one job. If this raises, the job is refused."""

    async def revoke(self, job_id: str, credential_id: str) -> None:
        """Revoke a credential permanently. Idempotent; called again until a call does not raise."""


class Vault:
    """Tracks the valid credentials and revokes them at the end of their jobs.

    Args:
        provisioner: issues and revokes them.
        tasks: owns background revocations.
        journal: records the valid credentials, so that a restart can still revoke them.
        grace: seconds that a job's terminal event waits for the revocation of its credentials.
    """

    def __init__(
        self, provisioner: Provisioner, tasks: TaskOwner, journal: Journal, *, grace: float = 5.0
    ) -> None:
        self._provisioner = provisioner
        self._tasks = tasks
        self._journal = journal
        self.grace = grace

    async def issue(self, wanted: Provision, grant: Grant) -> list[Credential]:
        """Issue credentials for a job that is about to be accepted.

        Raises:
            RequestError: issuing failed; credentials issued so far are revoked.
        """
        task = asyncio.current_task()
        try:
            issued = list(await self._provisioner.issue(wanted))
        except RequestError:
            raise
        except BaseException as error:
            pass_on(error, task)
            _log.exception(
                "no credentials for job %s", wanted.job_id, extra=log_fields(job=wanted.job_id)
            )
            raise request_error(
                names.INTERNAL_ERROR, "no credentials could be issued", retryable=True
            ) from error
        for credential in issued:
            self._journal.put(CredentialState(wanted.job_id, credential.id, True))
        return [_constrained(credential, grant) for credential in issued]

    async def revoke(self, job_id: str, ids: Sequence[str]) -> None:
        """Revoke a job's credentials; return when all are revoked, or after the grace period.

        A failed revocation is retried, after the grace period in the background.
        """
        tasks = {self._tasks.spawn(self._end(job_id, each), name="revoke") for each in ids}
        if tasks:
            await asyncio.wait(tasks, timeout=self.grace)

    def revoke_later(self, job_id: str, ids: Sequence[str]) -> None:
        """Revoke in the background: for a job that was not accepted, or after a restart."""
        for each in ids:
            self._tasks.spawn(self._end(job_id, each), name="revoke")

    async def _end(self, job_id: str, credential_id: str) -> None:
        delay = _FIRST_RETRY
        task = asyncio.current_task()
        while True:
            try:
                await self._provisioner.revoke(job_id, credential_id)
            except BaseException as error:  # noqa: BLE001 - the credential still lives
                pass_on(error, task)
                _log.error(
                    "credential %s of job %s is not revoked yet: %s",
                    credential_id,
                    job_id,
                    type(error).__name__,
                    extra=log_fields(job=job_id),
                )
                await asyncio.sleep(delay)
                delay = min(delay * 2, _LAST_RETRY)
            else:
                self._journal.put(CredentialState(job_id, credential_id, False))
                return


def _constrained(credential: Credential, grant: Grant) -> Credential:
    """Add the lease's constraints to a credential for which the provisioner gave none."""
    if credential.constraints is not None:
        return credential
    lease = grant.lease
    echo: dict[str, Any] = {name: list(lease[name]) for name in (BUDGET, MODELS) if name in lease}
    if grant.expires_at is not None:
        echo |= grant.wire_constraints() or {}
    return credential.model_copy(update={"constraints": echo})


def credential_wire(credential: Credential) -> dict[str, Any]:
    """Encode a credential with its value, for the session that may see it."""
    shown = credential.model_dump(mode="json", exclude_none=True)
    shown["value"] = credential.value.get_secret_value()
    return shown
