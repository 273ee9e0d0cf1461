"""The dashboard masks known secrets, and values that look like secrets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from arcp_client import Client, Credential, JobContext, Provision, Runtime, SqliteEventLog
from tests.unit.web.kit import Site, site

CREDENTIAL = "cred-value-0123456789"
ROTATED = "cred-value-9876543210"
TOKEN = "token-of-the-client"
PASSWORD = "hunter2-hunter2"
BODIES: list[list[Any]] = [
    ["log", {"level": "info", "message": f"password={PASSWORD} is what it is"}],
    ["tool_call", {"tool": "http", "call_id": "1", "args": {"Authorization": f"Basic {PASSWORD}"}}],
    [
        "tool_result",
        {"call_id": "1", "result": {"api_key": PASSWORD, "rows": [{"token": PASSWORD}]}},
    ],
    ["thought", {"text": f"the client said {TOKEN}"}],
    ["status", {"phase": "login", "message": f"Bearer {PASSWORD}"}],
    ["progress", {"current": 1, "total": 2, "message": f"secret: {PASSWORD}"}],
    ["x-vendor.thing", {"client_secret": PASSWORD, "nested": [{"private_key": PASSWORD}]}],
]


async def everything(served: Site, job_id: str) -> str:
    """All that one can see of a job."""
    shown = [str(await served.tab(job_id).follow())]
    for path in ("transcript", "result"):
        async with served.http.get(served.url(f"api/jobs/{job_id}/{path}")) as response:
            shown.append(await response.text())
    shown.append(str(await served.get("api/overview")))
    async for frame in served.frames("api/overview/stream"):
        shown.append(str(frame))
        break
    return "\n".join(shown)


async def test_values_that_look_like_secrets_are_masked(client: Client, other: Client) -> None:
    job = await other.submit("emit", BODIES)
    async with site(client, secrets=[TOKEN]) as served:
        shown = await everything(served, job.id)
    assert PASSWORD not in shown
    assert TOKEN not in shown
    assert "is what it is" in shown
    assert "rows" in shown


async def test_results_are_masked(client: Client, other: Client) -> None:
    value = {"api_key": PASSWORD, "note": f"password={PASSWORD}", "count": 3}
    job = await other.submit("echo", value)
    pieces = await other.submit("text", ["a piece\n", f"api_key={PASSWORD}\n", "the end"])
    async with site(client) as served:
        shown = await everything(served, job.id) + await everything(served, pieces.id)
    assert PASSWORD not in shown
    assert "the end" in shown
    assert '"count":3' in shown


class Lender:
    """Lends every job one credential."""

    async def issue(self, wanted: Provision) -> Sequence[Credential]:
        return [Credential(id="cred_1", value=SecretStr(CREDENTIAL), profile="openai")]

    async def revoke(self, job_id: str, credential_id: str) -> None:
        pass


async def test_credentials_of_a_job_are_masked_wherever_the_agent_repeats_them(
    tmp_path: Path,
) -> None:
    log = SqliteEventLog(tmp_path / "runtime.db")
    async with Runtime(event_log=log, provisioner=Lender()) as runtime:

        @runtime.agent("leaky")
        async def leaky(input: Any, job: JobContext) -> Any:
            await job.log(f"I was given {CREDENTIAL} to use")
            runtime.rotate(job.id, Credential(id="cred_1", value=SecretStr(ROTATED)))
            await job.log(f"and then {ROTATED} instead of {CREDENTIAL}")
            return [CREDENTIAL, ROTATED]

        async with Client(runtime) as client:
            body = {
                "agent": "leaky",
                "lease": {"model.use": ["gpt-*"]},
                "idempotency_key": "k",
            }
            async with site(client, allow_control=True) as served:
                job_id = (await served.post("api/jobs", body))[1]["job_id"]
                details = (await served.tab(job_id).follow()).details
                shown = await everything(served, job_id)
            job = client.job(job_id)
            assert job is not None
            assert [each.value.get_secret_value() for each in job.credentials.values()] == [ROTATED]
    assert "I was given" in shown
    assert CREDENTIAL not in shown
    assert ROTATED not in shown
    assert details[-1]["credentials"] == ["cred_1"]
