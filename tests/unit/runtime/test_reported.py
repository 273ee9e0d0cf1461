"""Failures that were reported of other runtimes, each provoked against this one."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

import arcp_client
from arcp_client.errors import PermissionDenied
from arcp_client.models import Credential
from arcp_client.runtime import JobContext, Provision, Runtime, SqliteEventLog
from arcp_client.testing import VirtualClock
from tests.unit.runtime.sessions.test_resume import started

PACKAGE = Path(arcp_client.__file__).parent


class Account:
    """A provisioner that writes down what it is asked."""

    def __init__(self) -> None:
        self.refuses = False
        self.revoked: list[tuple[str, str]] = []

    async def issue(self, wanted: Provision) -> Sequence[Credential]:
        if self.refuses:
            raise PermissionDenied("not today")
        return [Credential(id="c1", value=SecretStr("old"))]

    async def revoke(self, job_id: str, credential_id: str) -> None:
        self.revoked.append((job_id, credential_id))


@pytest.fixture
def account() -> Account:
    return Account()


@pytest.fixture
def runtime(make: Any, tmp_path: Path, account: Account) -> Runtime:
    """One that may give out credentials: it knows who asks, and remembers what it gave out."""
    log = SqliteEventLog(tmp_path / "runtime.db")
    made: Runtime = make(
        event_log=log, provisioner=account, auth={"t": "alice"}, heartbeat_interval=None
    )
    return made


async def test_a_rotation_revokes_nothing_and_the_end_of_the_job_revokes_once(
    runtime: Runtime, open_peer: Any, account: Account
) -> None:
    peer = await open_peer(runtime, token="t")
    stepper, job_id = await started(runtime, peer)
    for value in ("new", "newer"):
        runtime.rotate(job_id, Credential(id="c1", value=SecretStr(value)))
        assert (await peer.read())["payload"]["body"]["value"] == value
        assert stepper.jobs[0].credentials[0].value.get_secret_value() == value
    assert account.revoked == []  # it would end the value that has just been given out
    stepper.end.set()
    await peer.follow(job_id)
    assert account.revoked == [(job_id, "c1")]


async def test_of_a_job_that_was_refused_nothing_is_heard_later(
    clock: VirtualClock, runtime: Runtime, open_peer: Any, account: Account
) -> None:
    runs: list[Any] = []

    @runtime.agent("count")
    async def count(input: Any, job: JobContext) -> None:
        runs.append(input)

    peer = await open_peer(runtime, token="t")
    account.refuses = True
    wish = {
        "agent": "count",
        "idempotency_key": "k",
        "max_runtime_sec": 5,
        "lease_request": {"cost.budget": ["USD:1"]},
        "lease_constraints": {"expires_at": "2999-01-01T00:00:00Z"},
    }
    refused = await peer.ask("job.submit", wish)
    assert refused["payload"]["code"] == "PERMISSION_DENIED"
    await clock.advance(60)  # beyond its time
    listed = await peer.ask("session.list_jobs")
    assert listed["payload"]["jobs"] == []
    assert peer.held == []
    account.refuses = False
    accepted = await peer.ask("job.submit", wish)
    assert accepted["type"] == "job.accepted"
    (terminal,) = await peer.follow(accepted["payload"]["job_id"])
    assert terminal["type"] == "job.result"
    assert len(runs) == 1


def test_no_secret_is_compared_in_a_time_that_tells_how_much_was_right() -> None:
    secret = ("token", "secret", "bearer", "password")
    found = []
    for path in sorted((PACKAGE / "runtime").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Compare) and any(
                isinstance(op, ast.Eq | ast.NotEq | ast.In | ast.NotIn) for op in node.ops
            ):
                for side in (node.left, *node.comparators):
                    name = side.attr if isinstance(side, ast.Attribute) else None
                    name = side.id if isinstance(side, ast.Name) else name
                    if name is not None and name.lower().rstrip("s") in secret:
                        found.append(f"{path.name}:{node.lineno}: {ast.unparse(node)}")
    assert found == []
