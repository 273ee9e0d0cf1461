"""What the servers of the reference SDK's examples do, on our runtime: one runtime an example."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

from aiohttp import web
from pydantic import SecretStr

from arcp_client import Credential, JobContext, Provision, Runtime, SqliteEventLog
from arcp_client.errors import PermissionDenied
from tests.unit.runtime.certificate import server_context

__all__ = ["EXAMPLES", "STDIO_SERVER", "serving"]

Speech = Literal["specification", "python"]

TOKENS = {"demo-token": "principal-a", "demo-token-b": "principal-b"}

STDIO_SERVER = """
import asyncio
from arcp_client import Runtime

runtime = Runtime(auth={"demo-token": "principal"})

@runtime.agent("echo")
async def echo(input, job):
    await job.log("ran")
    return {"echoed": input}

asyncio.run(runtime.serve_stdio())
"""


async def chatty(input: Any, job: JobContext) -> Any:
    for i in range(200):
        await job.log(f"chatter {i}")
        if i == 50:
            await job.status("back_pressure", "nothing acknowledged so far")
    return {"emitted": 200}


async def summarize(input: Any, job: JobContext) -> Any:
    return {"version": job.agent.partition("@")[2], "len": len(str(input))}


async def patient(input: Any, job: JobContext) -> Any:
    await job.log("tick")
    await asyncio.Event().wait()


async def caller(input: Any, job: JobContext) -> Any:
    for i in range(1, 6):
        if job.budget["USD"] <= 0:
            error = {"code": "BUDGET_EXHAUSTED", "message": "spent", "retryable": False}
            await job.tool_result(f"tc{i}", error=error)
            return {"completed": i - 1}
        await job.metric("cost.openai", 0.30, "USD")
        await job.tool_result(f"tc{i}", f"call-{i}")
    raise AssertionError("the budget was never spent")


async def echo(input: Any, job: JobContext) -> Any:
    return {"echoed": input}


async def child(input: Any, job: JobContext) -> Any:
    await job.log("child running")
    return {"trace_id": job.trace_id}


async def parent(input: Any, job: JobContext) -> Any:
    started = await job.delegate("child", {"from": "parent"})
    result = await started.result()
    return {"parent_trace": job.trace_id, "child_trace": result["trace_id"]}


async def slow(input: Any, job: JobContext) -> Any:
    """Nothing here waits for a clock: it emits as long as somebody may still come to look."""
    for i in range(40):
        await job.log(f"step {i}")
        await asyncio.sleep(0.05)
    return {"steps": 40}


async def forever(input: Any, job: JobContext) -> Any:
    await asyncio.Event().wait()


async def cautious(input: Any, job: JobContext) -> Any:
    try:
        job.authorize("fs.write", "/etc/passwd")
    except PermissionDenied as error:
        refusal = {"code": error.code, "message": error.message, "retryable": False}
        await job.tool_result("tc1", error=refusal)
    await job.log("continues")
    return {"continued": True}


async def report(input: Any, job: JobContext) -> Any:
    total = input["steps"]
    for i in range(1, total + 1):
        await job.progress(i, total=total, units="steps", message=f"step {i}/{total}")
    return {"steps": total}


async def model_user(input: Any, job: JobContext) -> Any:
    job.authorize("model.use", input["model"])
    await job.status("using_model", input["model"])
    return {"model": input["model"], "credential_count": len(job.credentials)}


async def report_builder(input: Any, job: JobContext) -> AsyncIterator[bytes]:
    for i in range(1, input["chunks"] + 1):
        yield f"Section {i}: lorem ipsum dolor sit amet.\n".encode()


async def every_kind(input: Any, job: JobContext) -> Any:
    await job.status("starting")
    await job.log("agent received input")
    await job.thought("I will fetch, then summarize.")
    await job.tool_call("fetch", {"url": "x://"}, "tc1")
    await job.tool_result("tc1", {"bytes": 42})
    await job.metric("tokens.in", 12, "tokens")
    await job.artifact("artifact://a1", "text/plain", 7)
    await job.status("complete")
    return {"summary": "ok"}


async def vendor(input: Any, job: JobContext) -> Any:
    await job.status("starting")
    for i in range(1, 4):
        await job.emit("x-vendor.acme.progress", {"i": i, "total": 3})
    return {"vendor": True}


class Issuer:
    """Credentials for the one example that wants them."""

    async def issue(self, wanted: Provision) -> Sequence[Credential]:
        return [Credential(id="cred", value=SecretStr("v"), endpoint="https://models.example")]

    async def revoke(self, job_id: str, credential_id: str) -> None: ...


async def signed(token: str) -> str | None:
    """The principal of a ``principal.expiry.signature`` token."""
    principal, _, rest = token.partition(".")
    expiry, _, signature = rest.partition(".")
    secret, text = b"demo-shared-secret", f"{principal}.{expiry}".encode()
    expected = hmac.new(secret, text, hashlib.sha256).hexdigest()
    return principal if hmac.compare_digest(expected, signature) else None


Agents = dict[str, Callable[..., Any]]

EXAMPLES: dict[str, tuple[Agents, dict[str, Any]]] = {
    "ack_backpressure": ({"chatty": chatty}, {}),
    "agent_versions": ({"summarize@1.0.0": summarize, "summarize@1.2.3": summarize}, {}),
    "cancel": ({"patient": patient}, {}),
    "cost_budget": ({"caller": caller}, {}),
    "custom_auth": ({"echo": echo}, {"auth": signed}),
    "delegate": ({"parent": parent, "child": child}, {}),
    "heartbeat": ({"long": echo}, {"heartbeat_interval": 5}),
    "host_aiohttp": ({"echo": echo}, {}),
    "host_asgi": ({"echo": echo}, {}),
    "host_tracing": ({"echo": echo}, {}),
    "idempotent_retry": ({"a": echo, "b": echo}, {}),
    "lease_expires_at": ({"slow": forever}, {}),
    "lease_violation": ({"cautious": cautious}, {}),
    "list_jobs": ({"hold": forever}, {}),
    "progress": ({"report": report}, {}),
    "provisioned_credentials": ({"model-user": model_user}, {"provisioner": Issuer()}),
    "result_chunk": ({"report-builder": report_builder}, {}),
    "resume": ({"slow": slow}, {}),
    "stdio": ({}, {}),
    "submit_and_stream": ({"echo": every_kind}, {}),
    "subscribe": ({"slow": slow}, {"policy": lambda wish: True}),
    "vendor_extensions": ({"vendor": vendor}, {}),
}


async def health(request: web.Request) -> web.Response:
    return web.json_response({"ok": True})


@asynccontextmanager
async def serving(name: str, directory: Path, dialect: Speech) -> AsyncIterator[dict[str, str]]:
    """Serve an example's agents; the environment that tells its client where."""
    agents, options = EXAMPLES[name]
    options = {"auth": TOKENS, "dialect": dialect, **options}
    secure = "provisioner" in options
    if secure:
        options["event_log"] = SqliteEventLog(directory / f"{name}.db")
    async with Runtime(**options) as runtime:
        for reference, function in agents.items():
            agent, _, version = reference.partition("@")
            runtime.agent(agent, version or None, default=version == "1.2.3")(function)
        app = web.Application()
        app.router.add_get("/health", health)
        runtime.add_routes(app)
        runner = web.AppRunner(app)
        await runner.setup()
        context = server_context(directory) if secure else None
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        port = runner.addresses[0][1]
        try:
            yield {
                "ARCP_DEMO_PORT": str(port),
                "ARCP_DEMO_URL": f"{'wss' if secure else 'ws'}://127.0.0.1:{port}/arcp",
            }
        finally:
            await runner.cleanup()
