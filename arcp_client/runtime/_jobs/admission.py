"""Accepts or refuses submits and delegations (§7.1, §7.2, §9.4, §10)."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from arcp_client._wire import names
from arcp_client._wire.fields import Malformed
from arcp_client._wire.ids import is_trace_id, new_prefixed_id, new_trace_id, parse_time, time_text
from arcp_client._wire.messages import Submit
from arcp_client._wire.stamp import payload_bytes
from arcp_client.errors import AgentNotFound, AgentVersionNotFound, InvalidRequest, RequestError
from arcp_client.models import Credential, Lease
from arcp_client.runtime._jobs.compat import SPECIFICATION, Compat
from arcp_client.runtime._jobs.idempotency import IdempotencyKeys, KeyEntry, fingerprint
from arcp_client.runtime._jobs.job import JobOrigin, JobRequest, ServerJob
from arcp_client.runtime._jobs.outcomes import Failure
from arcp_client.runtime._jobs.registry import JobRegistry
from arcp_client.runtime._leases.credentials import Provision, Vault, credential_wire
from arcp_client.runtime._leases.grant import BUDGET, Grant, parse_grant
from arcp_client.runtime._log.directory import Directory
from arcp_client.runtime._log.entries import JobInput, KeyState, LoggedJobState
from arcp_client.runtime._log.inventories import Offer
from arcp_client.runtime._sessions.session import ServerSession
from arcp_client.runtime.limits import Limits

__all__ = ["Acceptance", "Admission", "Delegation", "job_input"]


@dataclass(frozen=True, slots=True)
class Delegation:
    """An agent's request for a job of another agent (§10); by default with the parent's lease."""

    agent: str
    input: Any = None
    lease: Lease | Mapping[str, Any] | None = None
    expires_at: datetime | None = None
    max_runtime: float | None = None
    delegate_id: str | None = None


class AdmittedAgent(Protocol):
    """An agent, as the admission sees it."""

    @property
    def function(self) -> Callable[..., Any]:
        """The agent's function."""

    def check(self, input: bytes) -> None:
        """Raise InvalidInput if the agent does not take this input, given as JSON."""


class Acceptance:
    """An accepted submit or delegation.

    Args:
        payload: the payload of the acceptance, as it is sent.
        job: the job, if it is new and must be started here.
        elsewhere: the job is new, and waits for another replica.
    """

    def __init__(
        self, payload: dict[str, Any], job: ServerJob | None, *, elsewhere: bool = False
    ) -> None:
        self.payload = payload
        self.job = job
        self.elsewhere = elsewhere

    @property
    def job_id(self) -> str:
        """The id of the accepted job."""
        job_id: str = self.payload["job_id"]
        return job_id


class Admission:
    """Decides which submits and delegations become jobs.

    Args:
        resolve: returns the full reference and the agent for an agent reference.
        elsewhere: returns an `AdmittedAgent` for an agent that only another replica has.
        jobs: the registry of jobs.
        limits: the default lease.
        keys: the idempotency keys.
        vault: issues credentials to sessions that negotiated them.
        directory: the jobs and keys of all replicas.
        compat: adapts payloads to the SDKs that connect.
    """

    def __init__(
        self,
        resolve: Callable[[str], tuple[str, AdmittedAgent]],
        elsewhere: Callable[[Offer], AdmittedAgent],
        jobs: JobRegistry,
        limits: Limits,
        keys: IdempotencyKeys,
        vault: Vault | None,
        directory: Directory,
        compat: Compat = SPECIFICATION,
    ) -> None:
        self._directory = directory
        self._compat = compat
        self._resolve = resolve
        self._elsewhere = elsewhere
        self._jobs = jobs
        self._limits = limits
        self._keys = keys
        self._vault = vault

    # --------------------------------------------------------------------- submitting

    async def submit(
        self,
        session: ServerSession,
        submit: Submit,
        trace_id: str | None,
        extensions: Any = None,
    ) -> Acceptance | Awaitable[Acceptance]:
        """Accept a submit, or return the acceptance of an earlier one with the same key.

        Returns an awaitable if another party decides when the acceptance is there: a provisioner,
        or an earlier submit with the key.

        Raises:
            RequestError: the submit is refused and leaves no state behind.
        """
        key = submit.idempotency_key
        if key is None:
            return await self._accept(session, submit, trace_id, None, extensions)
        parameters = fingerprint(submit.wire())
        known = self._keys.find(session.principal, key, parameters)
        if known is not None:
            return (
                await self._again(session, known.payload)
                if known.payload
                else (self._repeat_later(session, known))
            )
        self._keys.begin(session.principal, key, parameters)
        try:
            earlier = await self._directory.find_key(session.principal, key, parameters, session.id)
            if earlier is not None:
                self._keys.settle(session.principal, key, dict(earlier))
                return Acceptance(dict(earlier), None)
            accepted = await self._accept(session, submit, trace_id, parameters, extensions)
        except BaseException as error:
            self._keys.drop(session.principal, key, error)
            raise
        if isinstance(accepted, Acceptance):
            self._keys.settle(session.principal, key, accepted.payload)
            return accepted
        return self._settle_later(session.principal, key, accepted)

    def withdraw(self, job: ServerJob, key: str | None, error: RequestError) -> None:
        """Refuse a submit although its job was accepted, because the job could not be stored."""
        if key is not None:
            self._keys.drop(job.principal, key, error)
        self._jobs.withdraw(job)

    async def _settle_later(
        self, principal: str, key: str, accepting: Awaitable[Acceptance]
    ) -> Acceptance:
        try:
            accepted = await accepting
        except BaseException as error:
            self._keys.drop(principal, key, error)
            raise
        self._keys.settle(principal, key, accepted.payload)
        return accepted

    async def _repeat_later(self, session: ServerSession, known: KeyEntry) -> Acceptance:
        return await self._again(session, await known.wait())

    async def _again(self, session: ServerSession, payload: dict[str, Any]) -> Acceptance:
        job = self._jobs.get(payload["job_id"])
        if job is not None:
            job.authorities.add(session.id)
            job.note()
        await self._directory.authorize(payload["job_id"], session.id)
        if names.CREDENTIALS not in session.features:
            payload = {k: v for k, v in payload.items() if k != "credentials"}
        return Acceptance(payload, None)

    async def _accept(
        self,
        session: ServerSession,
        submit: Submit,
        trace_id: str | None,
        parameters: bytes | None,
        extensions: Any,
    ) -> Acceptance | Awaitable[Acceptance]:
        key = submit.idempotency_key
        offer = None
        try:
            reference, agent = self._resolve(submit.agent)
        except (AgentNotFound, AgentVersionNotFound):
            # The jobs of a delegation are on one replica, which has their budgets.
            if submit.parent_job_id is None:
                offer = await self._directory.offer(submit.agent)
            if offer is None:
                raise
            reference, agent = offer.reference, self._elsewhere(offer)
        parent = self._parent(session, submit)
        requested: Mapping[str, Any] | None = self._compat.lease(submit.lease_request)
        if requested is None:
            requested = _inherited(self._limits.default_lease if parent is None else parent.lease)
        grant = self._grant(requested, submit.lease_constraints)
        _check_features(submit, grant, session.features)
        if parent is not None:
            grant = parent.grant.derive(grant, parent.budget)
        given = _input_json(submit.input)
        agent.check(given)
        size = 0 if submit.input is None else len(given)
        self._jobs.check_room(session.principal, size)
        request = JobRequest(
            agent=reference,
            function=agent.function,
            input=submit.input,
            grant=grant,
            trace_id=_trace(trace_id) or (parent.trace_id if parent else new_trace_id()),
            max_runtime=_seconds(submit.max_runtime_sec),
            parent=parent,
            delegate_id=submit.delegate_id,
            size=size,
            work_id=_work(submit),
            extensions=extensions,
        )
        origin = JobOrigin.of(session)
        if self._vault is not None and names.CREDENTIALS in session.features:
            return self._enter_with_credentials(self._vault, request, origin)
        used = None
        if key is not None and parameters is not None:
            used = KeyState(session.principal, key, parameters)
        if offer is not None:
            return await self._send_elsewhere(request, origin, used)
        return await self._enter(request, origin, key=used)

    async def _send_elsewhere(
        self, request: JobRequest, origin: JobOrigin, key: KeyState | None
    ) -> Acceptance:
        """Accept a job that waits for another replica, which has its agent."""
        job = self._jobs.draft(request, datetime.now(UTC), origin)
        payload = job.accept()
        earlier = await self._directory.accept(job.state(), key, job_input(request, origin.session))
        if earlier is None:
            return Acceptance(payload, None, elsewhere=True)
        if origin.session is None:
            return Acceptance(dict(earlier), None)
        return await self._again(origin.session, dict(earlier))

    def claim(self, state: LoggedJobState, given: JobInput) -> tuple[ServerJob, Failure | None]:
        """Register a job that another replica accepted, and that this one runs.

        Returns the job, and the failure that ends it if it cannot be run.
        """
        accepted = json.loads(state.accepted)
        failure: Failure | None = None
        function: Callable[..., Any] = _nothing
        grant = Grant(Lease(state.lease), parse_time(state.expires_at))
        try:
            _, agent = self._resolve(state.agent)
            grant = self._grant(accepted["lease"], accepted.get("lease_constraints"))
            agent.check(given.input)
            function = agent.function
        except RequestError as error:
            failure = Failure(names.ERROR, error.code, error.message, error.retryable)
        request = JobRequest(
            agent=state.agent,
            function=function,
            input=json.loads(given.input),
            grant=grant,
            trace_id=state.trace_id,
            max_runtime=given.max_runtime,
            delegate_id=state.delegate_id,
            job_id=state.id,
            size=len(given.input),
            work_id=state.work_id,
            plain=given.plain,
            extensions=None if given.extensions is None else json.loads(given.extensions),
        )
        origin = JobOrigin(state.principal, state.owner_id, None, set(state.authorities))
        job = self._jobs.claim(request, parse_time(state.created) or datetime.now(UTC), origin)
        job.accepted = accepted
        return job, failure

    def _grant(self, request: Mapping[str, Any], constraints: Mapping[str, Any] | None) -> Grant:
        limits = self._limits
        return parse_grant(
            request,
            constraints,
            datetime.now(UTC),
            patterns=limits.lease_patterns,
            size=limits.lease_bytes,
        )

    async def _enter(
        self,
        request: JobRequest,
        origin: JobOrigin,
        *credentials: Credential,
        key: KeyState | None = None,
    ) -> Acceptance:
        job = self._jobs.enter(request, datetime.now(UTC), origin)
        job.credentials = {credential.id: credential for credential in credentials}
        payload = job.accept([credential_wire(credential) for credential in credentials])
        try:
            earlier = await self._directory.accept(job.state(), key)
        except BaseException:
            self._jobs.discard(job)
            raise
        if earlier is not None:  # another replica has accepted a submit with this key meanwhile
            self._jobs.discard(job)
            return (
                await self._again(origin.session, dict(earlier))
                if origin.session
                else (Acceptance(dict(earlier), None))
            )
        job.note()
        return Acceptance(payload, job)

    async def _enter_with_credentials(
        self, vault: Vault, request: JobRequest, origin: JobOrigin
    ) -> Acceptance:
        """Issue the job's credentials before the job is accepted (§9.8)."""
        request.job_id = job_id = new_prefixed_id("job")
        lease, expires_at = request.grant.lease, request.grant.expires_at
        wanted = Provision(job_id, origin.principal, request.agent, lease, expires_at)
        issued = await vault.issue(wanted, request.grant)
        try:
            self._jobs.check_room(origin.principal, request.size)
            if request.parent is not None and request.parent.ended:
                raise InvalidRequest("the parent job has ended")
        except RequestError:
            vault.revoke_later(job_id, [credential.id for credential in issued])
            raise
        if origin.session is not None and origin.session.expired:
            origin.session = None
        return await self._enter(request, origin, *issued)

    def _parent(self, session: ServerSession, submit: Submit) -> ServerJob | None:
        if submit.parent_job_id is None:
            return None
        parent = self._jobs.controlled(session, submit.parent_job_id)
        if parent.ended:
            raise InvalidRequest("the parent job has ended")
        if self._jobs.get(parent.id) is None:
            raise InvalidRequest("the parent job runs on another replica")
        return parent

    # --------------------------------------------------------------------- delegating

    async def delegate(self, parent: ServerJob, wish: Delegation) -> ServerJob:
        """Accept a delegation with a subset of the parent's lease.

        The caller has already checked that the agent may delegate.

        Raises:
            AgentNotFound: no agent has that name.
            AgentVersionNotFound: the agent is not registered in that version.
            InvalidInput: the input does not match the schema that the agent declares.
            InvalidRequest: the lease is malformed.
            LeaseSubsetViolation: the lease exceeds the parent's (§9.4).
        """
        reference, agent = self._resolve(wish.agent)
        agent.check(_input_json(wish.input))
        requested = _inherited(parent.lease) if wish.lease is None else _plain(wish.lease)
        constraints = None if wish.expires_at is None else {"expires_at": _moment(wish.expires_at)}
        asked = self._grant(requested, constraints)
        grant = parent.grant.derive(asked, parent.budget)
        self._jobs.check_room(parent.principal)
        request = JobRequest(
            agent=reference,
            function=agent.function,
            input=wish.input,
            grant=grant,
            trace_id=parent.trace_id,
            max_runtime=wish.max_runtime,
            parent=parent,
            delegate_id=wish.delegate_id or new_prefixed_id("del"),
        )
        if self._vault is not None and parent.credentials:
            accepted = await self._enter_with_credentials(self._vault, request, parent.origin)
        else:
            accepted = await self._enter(request, parent.origin)
        assert accepted.job is not None
        return accepted.job


def job_input(request: JobRequest, session: ServerSession | None) -> JobInput:
    """Return what another replica needs to run a job, besides its state."""
    return JobInput(
        _input_json(request.input),
        request.max_runtime,
        request.plain or (session is not None and names.RESULT_CHUNKS not in session.features),
        None if request.extensions is None else _input_json(request.extensions),
    )


def _nothing(*_: object) -> None:
    """Stand for an agent that cannot be run."""


def _input_json(value: Any) -> bytes:
    """Return an input as JSON."""
    return b"null" if value is None else payload_bytes({"": value})[len('{"":') : -1]


def _inherited(lease: Lease) -> dict[str, list[str]]:
    """Return a lease without its budget, because a child's costs are charged to the parent."""
    return {name: list(lease[name]) for name in lease.namespaces() if name != BUDGET}


def _plain(lease: Lease | Mapping[str, Any]) -> Mapping[str, Any]:
    return lease.root if isinstance(lease, Lease) else Lease.model_validate(lease).root


def _moment(value: datetime) -> str:
    if value.tzinfo is None:
        raise InvalidRequest("expires_at needs a time zone")
    return time_text(value)


_GATED = (names.BUDGETS, names.MODEL_USE)


def _check_features(submit: Submit, grant: Grant, features: frozenset[str]) -> None:
    """Refuse fields whose feature the session did not negotiate (§6.2)."""
    asked = submit.lease_request or {}
    missing = [feature for feature in _GATED if feature in asked]
    if grant.expires_at is not None:
        missing.append(names.LEASE_EXPIRY)
    if grant.pauses:
        missing.append(names.ASKING)
    if names.WORK_ID in submit.extra:
        missing.append(names.WORKS)
    if "@" in submit.agent:
        missing.append(names.AGENT_VERSIONS)
    for feature in missing:
        if feature not in features:
            raise InvalidRequest(f"the feature {feature} was not negotiated")


def _work(submit: Submit) -> str | None:
    try:
        return submit.work_id
    except Malformed as error:
        raise InvalidRequest(f"{names.SUBMIT}: {error}") from None


def _seconds(value: int | None) -> float | None:
    # Timers overflow after some decades; an integer may be too large for a float.
    return None if value is None else float(min(value, 10**9))


def _trace(value: str | None) -> str | None:
    """Return a trace id from the envelope: bare, or inside a traceparent (§11)."""
    if value is None:
        return None
    parts = value.split("-")
    if len(parts) == 4:
        value = parts[1]
    return value if is_trace_id(value) else None
