"""Asks people what a hosted agent wants to know: permissions and elicitations become questions.

The lease decides first: requests that it does not cover are rejected without a question. Then a
local policy may decide. Other requests become questions of the job; the runtime accepts exactly one
answer to each.
"""

from __future__ import annotations

import inspect
import json
from typing import Any

import msgspec

from arcp_client.acp import schema
from arcp_client.acp._kinds import PERMISSION
from arcp_client.acp.host.events import as_values
from arcp_client.acp.host.leases import lease_policy
from arcp_client.acp.services.permissions import ASK, Answer, PermissionRequest, Policy
from arcp_client.acp.services.routes import Elicit
from arcp_client.errors import FeatureNotNegotiated, QuestionExpired
from arcp_client.runtime import JobContext

__all__ = ["asking_policy", "elicitation"]

_DECLINE = "decline"


def asking_policy(job: JobContext, cwd: str, local: Policy | None, timeout: float | None) -> Policy:
    """Make a policy that asks the people who follow the job.

    Args:
        job: the job; its lease decides what may be asked at all.
        cwd: the agent's working directory.
        local: decides what it can, and returns `ASK` for the rest; ``None`` asks everything.
        timeout: seconds until a question expires, which rejects the permission.
    """
    lease = lease_policy(job, cwd)

    async def policy(request: PermissionRequest) -> Answer:
        covered = lease(request)
        if covered is not True:
            assert covered is False
            return False
        if local is not None:
            decided = local(request)
            if inspect.isawaitable(decided):
                decided = await decided
            if decided is not ASK:
                return decided
        call = request.tool_call
        options = [(option.option_id, option.name) for option in request.options]
        text = f"May the agent do this? {call.title or call.name or call.kind or 'a tool call'}"
        shown = [as_values(option) for option in request.options]
        await job.emit(PERMISSION, {"text": text, "tool_call": as_values(call), "options": shown})
        try:
            answer = await job.ask(
                text,
                options=options,
                timeout=timeout,
            )
        except QuestionExpired:
            return False
        except FeatureNotNegotiated:  # there is no client to ask: the lease alone decides
            return True
        return str(answer)

    return policy


def elicitation(job: JobContext, timeout: float | None) -> Elicit:
    """Make the function that asks people what the agent elicits."""

    async def ask(
        request: schema.CreateElicitationRequestForm | schema.CreateElicitationRequestUrl,
    ) -> Any:
        try:
            if isinstance(request, schema.CreateElicitationRequestUrl):
                text = f"{request.message} Open {request.url}"
                done = await job.ask(text, options=["done", _DECLINE], timeout=timeout)
                return done == "done"
            form = json.loads(msgspec.json.encode(request.requested_schema))
            answer = await job.ask(
                request.message, schema={"anyOf": [form, {"const": _DECLINE}]}, timeout=timeout
            )
        except (QuestionExpired, FeatureNotNegotiated):
            return None
        except (TypeError, ValueError) as error:
            await job.log(f"the agent's form cannot be asked: {error}", "warn")
            return None
        return False if answer == _DECLINE else answer

    return ask
