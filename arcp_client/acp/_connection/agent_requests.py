"""Runs the services that the agent requests, and answers each request exactly once.

A request starts when its turn comes in the session's lane (`UpdateLane`). From then on it runs
concurrently, and the lane continues. The bytes of open requests and of unread answers are limited:
a request whose answer may be large starts only when there is room for the answer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from arcp_client._budget import ByteBudget
from arcp_client._deadline import Deadline
from arcp_client._tasks import TaskOwner, pass_on
from arcp_client.acp import errors, schema
from arcp_client.acp._connection.lane import HERE, AttachedSession, Inside
from arcp_client.acp._connection.messages import Id, Key
from arcp_client.acp._decode import REFUSED, Misshapen, as_value, decode
from arcp_client.acp._repair import readings
from arcp_client.acp.errors import Refusal

__all__ = ["AgentRequests", "Route"]

_log = logging.getLogger("arcp_client.acp")

# The answers to open requests of a turn that was cancelled.
_CANCELLED: Mapping[str, Any] = {
    "session/request_permission": schema.RequestPermissionResponse(
        outcome=schema.RequestPermissionOutcomeCancelled()
    ),
    "elicitation/create": schema.CreateElicitationResponseCancel(),
}


@dataclass(frozen=True, slots=True)
class Route:
    """How a method is served.

    Attributes:
        serve: called with the params and the id of the session, if the params name one.
        params: the type of the params; None leaves them as JSON values.
        weight: bytes that are reserved for the answer until it is sent; the request waits until
            there is room. 0 for a small answer, for which no request waits.
    """

    serve: Callable[[Any, str | None], Awaitable[Any]]
    params: Any = None
    weight: int = 0


class Post(Protocol):
    """The interface of `JsonRpcPeer.post`, which queues a message for the agent."""

    def __call__(self, message: Mapping[str, Any], *, reserved: int | None = None) -> None:
        """Queue a message."""


class _Open:
    __slots__ = ("answered", "id", "method", "params", "reserved", "session_id", "size", "task")

    def __init__(self, id_: Id, method: str, params: bytes, session_id: str | None) -> None:
        self.id = id_
        self.method = method
        self.params = params
        self.size = len(params) + len(id_.raw)
        self.reserved: int | None = None
        self.session_id = session_id
        self.task: asyncio.Task[None] | None = None
        self.answered = False


class AgentRequests:
    """The agent's open requests.

    Args:
        routes: the served methods. Others are answered with -32601.
        post: queues a message for the agent.
        session: returns the session with an id, if it is known.
        limit: maximum number of open requests.
        held: counts the bytes of open requests.
        answers: counts the bytes of unsent answers.
        failed: called with exceptions of services, except `Refusal`.
        who: names this end in refusals.
    """

    def __init__(
        self,
        routes: Mapping[str, Route],
        *,
        post: Post,
        session: Callable[[str], AttachedSession | None],
        limit: int,
        held: ByteBudget,
        answers: ByteBudget,
        failed: Callable[[str, BaseException], None],
        who: str = "this client",
    ) -> None:
        self._who = who
        self._routes = routes
        self._post = post
        self._session = session
        self._limit = limit
        self._held = held
        self._answers = answers
        self._failed = failed
        self._open: dict[Key, _Open] = {}
        self._owner = TaskOwner("arcp_client.acp.requests")
        self._ended = False

    def take(self, id_: Id, method: str, params: bytes) -> None:
        """Accept a request. The lane of its session decides when it starts."""
        request = _Open(id_, method, params, _session_id(params))
        if method not in self._routes:
            text = f"{self._who} does not support {method:.200}"
            self._refuse(request, errors.METHOD_UNKNOWN, text)
            return
        if id_.key in self._open or len(self._open) >= self._limit or self._ended:
            why = "its id is in use" if id_.key in self._open else "too many requests are open"
            self._refuse(request, errors.INVALID_REQUEST, why)
            return
        self._open[id_.key] = request
        self._held.add(request.size)
        session = None if request.session_id is None else self._session(request.session_id)
        if session is None:
            self._start(request)
        elif session.cancelling and method in _CANCELLED:
            self._answer(request, _CANCELLED[method])
        else:
            session.lane.start(lambda: self._start(request))

    def cancel(self, id_: Any) -> None:
        """Cancel a request, as ``$/cancel_request`` demands. The agent gets the error -32800."""
        if type(id_) not in (int, float, str):
            return
        request = self._open.get(id_)
        if request is not None:
            self._refuse(request, errors.CANCELLED, "cancelled on request")
            self._stop(request)

    def cancel_session(self, session_id: str) -> None:
        """Answer the session's permission and elicitation requests as cancelled."""
        for request in list(self._open.values()):
            if request.session_id == session_id and request.method in _CANCELLED:
                self._answer(request, _CANCELLED[request.method])
                self._stop(request)

    async def close(self, deadline: Deadline) -> bool:
        """Stop all services and send no answers.

        Returns:
            Whether all services have ended. One that ignores its cancellation is abandoned at the
            deadline.
        """
        self._ended = True
        self._forget_all()
        return await self._owner.close(deadline=deadline)

    def forget(self) -> None:
        """Stop all services, because the agent has exited."""
        self._ended = True
        for request in list(self._open.values()):
            request.answered = True
            self._stop(request)
        self._forget_all()

    def _forget_all(self) -> None:
        self._held.release(sum(request.size for request in self._open.values()))
        self._open.clear()

    # ------------------------------------------------------------------ one request

    def _start(self, request: _Open) -> None:
        if not request.answered and not self._ended:
            request.task = self._owner.spawn(self._serve(request), name=request.method)

    def _stop(self, request: _Open) -> None:
        if request.task is not None:
            request.task.cancel()

    async def _serve(self, request: _Open) -> None:
        HERE.set(inside := Inside(None))
        task = asyncio.current_task()
        route = self._routes[request.method]
        try:
            if route.weight:
                weight = min(route.weight, self._answers.limit)
                await self._answers.reserve(weight)
                request.reserved = weight
            params = (
                as_value(request.params or b"{}")
                if route.params is None
                else decode(route.params, request.params)
            )
            request.params = b""  # the service holds what it needs of them
            result = await route.serve(params, request.session_id)
        except asyncio.CancelledError as error:
            self._refuse(request, errors.INTERNAL, f"{request.method} was cancelled here")
            pass_on(error)
            self._failed(request.method, error)
        except Refusal as refusal:
            self._refuse(request, refusal.number, refusal.message, refusal.data)
        except (Misshapen, msgspec.ValidationError) as error:
            self._refuse(request, errors.INVALID_PARAMS, str(error))
        except BaseException as error:  # noqa: BLE001  # a service is user code
            pass_on(error, task)
            self._refuse(request, errors.INTERNAL, f"{request.method} failed here")
            self._failed(request.method, error)
        else:
            self._answer(request, result)
        finally:
            inside.active = False
            if request.reserved is not None:  # no answer uses the reservation
                self._answers.release(request.reserved)

    def _answer(self, request: _Open, result: Any) -> None:
        if request.answered:
            return
        # A Base without values is {}; None is a valid answer of an extension.
        try:
            member = {"result": result if result is not None else {}}
            self._send(request, member, reserved=request.reserved)
            request.reserved = None
        except (TypeError, ValueError) as error:
            why = f"the client's answer to {request.method} is not a JSON value"
            self._refuse(request, errors.INTERNAL, why)
            self._failed(request.method, error)

    def _refuse(self, request: _Open, number: int, message: str, data: Any = None) -> None:
        if request.answered:
            return
        error: dict[str, Any] = {"code": number, "message": message}
        if data is not None:
            error["data"] = data
        try:
            self._send(request, {"error": error})
        except (TypeError, ValueError):  # the message has lone surrogates, or the data is not JSON
            plain = message.encode("utf-8", "replace").decode()
            self._send(request, {"error": {"code": number, "message": plain}})

    def _send(
        self, request: _Open, member: Mapping[str, Any], *, reserved: int | None = None
    ) -> None:
        self._post({"id": request.id.raw, **member}, reserved=reserved)
        self._close(request)

    def _close(self, request: _Open) -> None:
        request.answered = True
        if self._open.get(request.id.key) is request:
            del self._open[request.id.key]
            self._held.release(request.size)


class _RequestParams(msgspec.Struct, rename="camel", gc=False):
    session_id: str | None = None


def _session_id(params: bytes) -> str | None:
    for text in readings(params):
        try:
            return msgspec.json.decode(text, type=_RequestParams).session_id
        except REFUSED:
            continue
    return None
