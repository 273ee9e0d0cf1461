"""Permission policies: decide which of the offered options answers a permission request.

A policy is any function of a `PermissionRequest`, async or not. It answers with one of the options
or its id, with True to allow it once, with False to reject it, or with None for "cancelled".
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import TypeAlias

from arcp_client.acp import schema
from arcp_client.acp.session import AcpSession

__all__ = ["Answer", "PermissionRequest", "Policy", "allow_list", "decide", "deny"]

Answer: TypeAlias = "str | schema.PermissionOption | bool | None"

_ALLOW = ("allow_once", "allow_always")
_REJECT = ("reject_once", "reject_always")


@dataclass(frozen=True, slots=True)
class PermissionRequest:
    """A permission that the agent asks for. The handlers of earlier updates have ended.

    Attributes:
        session: the session of the request; None if this client does not know it.
        session_id: the id of that session.
        tool_call: the tool call in question, with all its updates applied.
        options: the possible answers.
    """

    session: AcpSession | None
    session_id: str
    tool_call: schema.ToolCall
    options: tuple[schema.PermissionOption, ...]

    def option(self, *kinds: str) -> schema.PermissionOption | None:
        """The first option of the first of these kinds that there is, such as ``allow_once``."""
        for kind in kinds:
            for option in self.options:
                if option.kind == kind:
                    return option
        return None


Policy: TypeAlias = "Callable[[PermissionRequest], Answer | Awaitable[Answer]]"


def deny(request: PermissionRequest) -> Answer:
    """Reject everything. The default policy of a client."""
    return False


def allow_list(
    *,
    kinds: Collection[str] = (),
    tools: Collection[str] = (),
    otherwise: Policy = deny,
) -> Policy:
    """A policy that allows some tool calls, each time anew, and leaves the rest to another policy.

    Args:
        kinds: kinds of tools, such as ``read`` and ``search``, as the agent names them.
        tools: names of tools, where the agent gives them (``ToolCall.name``).
        otherwise: the policy for everything else: `deny`, or a function that asks the user.
    """

    def policy(request: PermissionRequest) -> Answer | Awaitable[Answer]:
        call = request.tool_call
        listed = call.kind in kinds or (call.name is not None and call.name in tools)
        if listed and request.option("allow_once") is not None:
            return request.option("allow_once")
        return otherwise(request)

    return policy


async def decide(policy: Policy, request: PermissionRequest) -> schema.RequestPermissionResponse:
    """Ask a policy, and convert its answer to a response of the protocol.

    Raises:
        ValueError: its answer is not an option of the request.
    """
    answer = policy(request)
    if inspect.isawaitable(answer):
        answer = await answer
    if isinstance(answer, bool):
        # What would allow for ever is no answer to "may it?" that was meant once.
        answer = request.option(*(_ALLOW[:1] if answer else _REJECT))
    if answer is None:
        return schema.RequestPermissionResponse(outcome=schema.RequestPermissionOutcomeCancelled())
    option_id = answer if isinstance(answer, str) else answer.option_id
    if option_id not in [option.option_id for option in request.options]:
        raise ValueError(f"{option_id!r} is not one of the options")
    outcome = schema.SelectedPermissionOutcome(option_id=option_id)
    return schema.RequestPermissionResponse(outcome=outcome)
