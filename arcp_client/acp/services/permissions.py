"""Permission policies, which select the answer to a permission request of the agent.

A policy is a sync or async function that takes a `PermissionRequest`. It returns one of the offered
options or an option's id, True to allow once, False to reject, or None for "cancelled".
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Final, TypeAlias

from arcp_client.acp import schema
from arcp_client.acp.session import AcpSession

__all__ = ["ASK", "Answer", "Ask", "PermissionRequest", "Policy", "allow_list", "decide", "deny"]


class Ask(enum.Enum):
    """The answer of a policy that leaves the decision to people: `ASK`, for `host` only."""

    ASK = "ask"


ASK: Final = Ask.ASK
Answer: TypeAlias = "str | schema.PermissionOption | Ask | bool | None"

_ALLOW = ("allow_once", "allow_always")
_REJECT = ("reject_once", "reject_always")


@dataclass(frozen=True, slots=True)
class PermissionRequest:
    """A permission that the agent requests. The handlers of earlier updates have ended.

    Attributes:
        session: the session of the request; None if this client does not know it.
        session_id: the id of that session.
        tool_call: the tool call, with all its updates applied.
        options: the possible answers.
        title: the title of the question, if the agent sends one (version 2 of the protocol).
        description: why the permission is needed, if the agent says so (version 2).
    """

    session: AcpSession | None
    session_id: str
    tool_call: schema.ToolCall
    options: tuple[schema.PermissionOption, ...]
    title: str | None = None
    description: str | None = None

    def option(self, *kinds: str) -> schema.PermissionOption | None:
        """Return the first option of the first of these kinds that the agent offers.

        ``None`` if it offers none of them. A kind is a string such as ``allow_once``.
        """
        for kind in kinds:
            for option in self.options:
                if option.kind == kind:
                    return option
        return None


Policy: TypeAlias = "Callable[[PermissionRequest], Answer | Awaitable[Answer]]"


def deny(request: PermissionRequest) -> Answer:
    """Reject every request. The default policy of a client."""
    return False


def allow_list(
    *,
    kinds: Collection[str] = (),
    tools: Collection[str] = (),
    otherwise: Policy = deny,
) -> Policy:
    """Make a policy that allows some tool calls once, and leaves the others to another policy.

    Args:
        kinds: kinds of tools, such as ``read`` and ``search``, as the agent names them.
        tools: names of tools, if the agent sends them (``ToolCall.name``).
        otherwise: the policy for all other calls: `deny`, or a function that asks the user.
    """

    def policy(request: PermissionRequest) -> Answer | Awaitable[Answer]:
        call = request.tool_call
        listed = call.kind in kinds or (call.name is not None and call.name in tools)
        if listed and request.option("allow_once") is not None:
            return request.option("allow_once")
        return otherwise(request)

    return policy


async def decide(policy: Policy, request: PermissionRequest) -> schema.RequestPermissionResponse:
    """Call a policy, and convert its answer to a response of the protocol.

    Raises:
        ValueError: the answer is not an option of the request.
    """
    answer = policy(request)
    if inspect.isawaitable(answer):
        answer = await answer
    if answer is ASK:
        raise ValueError("the policy leaves this to people, and only acp.host(ask=True) asks them")
    if isinstance(answer, bool):
        # True means "allow once", so it never selects an option that allows permanently.
        answer = request.option(*(_ALLOW[:1] if answer else _REJECT))
    if answer is None:
        return schema.RequestPermissionResponse(outcome=schema.RequestPermissionOutcomeCancelled())
    option_id = answer if isinstance(answer, str) else answer.option_id
    if option_id not in [option.option_id for option in request.options]:
        raise ValueError(f"{option_id!r} is not one of the options")
    outcome = schema.SelectedPermissionOutcome(option_id=option_id)
    return schema.RequestPermissionResponse(outcome=outcome)
