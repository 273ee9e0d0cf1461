"""Requests of the agent in, one answer each out: services that run beside the inbox."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import msgspec

from arcp_client._tasks import TaskOwner
from arcp_client.acp import errors, schema
from arcp_client.acp._decode import Misshapen, decode
from arcp_client.acp._lane import HERE, Inside, Lane
from arcp_client.acp.errors import Refusal

__all__ = ["Requests", "Route", "SessionLike"]

_log = logging.getLogger("arcp_client.acp")

_decode = msgspec.json.Decoder().decode
# What the agent gets for a request that its own session's cancelled turn has made pointless.
_CANCELLED: Mapping[str, Any] = {
    "session/request_permission": schema.RequestPermissionResponse(
        outcome=schema.RequestPermissionOutcomeCancelled()
    ),
    "elicitation/create": schema.CreateElicitationResponseCancel(),
}


class SessionLike(Protocol):
    """What a session is to the requests made in it."""

    @property
    def lane(self) -> Lane:
        """Its inbox."""

    @property
    def cancelling(self) -> bool:
        """Whether a turn of it is being cancelled."""


@dataclass(frozen=True, slots=True)
class Route:
    """Who answers a method.

    Attributes:
        serve: given the params and the id of their session, if they have one.
        params: the type of the params; None leaves them as JSON values.
    """

    serve: Callable[[Any, str | None], Awaitable[Any]]
    params: Any = None


Key: TypeAlias = "int | str | None"


class _Open:
    __slots__ = ("answered", "id", "method", "params", "session_id", "task")

    def __init__(self, id_: Key, method: str, params: bytes, session_id: str | None) -> None:
        self.id = id_
        self.method = method
        self.params = params
        self.session_id = session_id
        self.task: asyncio.Task[None] | None = None
        self.answered = False


class Requests:
    """The agent's open requests.

    Args:
        routes: methods that are served. Others are answered with -32601.
        post: sends a message on the side.
        session: the session of an id, if it is known.
        limit: how many may be open.
        failed: told of what a service raised, beside `Refusal`.
    """

    def __init__(
        self,
        routes: Mapping[str, Route],
        *,
        post: Callable[[Mapping[str, Any]], None],
        session: Callable[[str], SessionLike | None],
        limit: int,
        failed: Callable[[str, BaseException], None],
    ) -> None:
        self._routes = routes
        self._post = post
        self._session = session
        self._limit = limit
        self._failed = failed
        self._open: dict[Key, _Open] = {}
        self._owner = TaskOwner("arcp_client.acp.requests")
        self._ended = False

    def take(self, id_: Key, method: str, params: bytes) -> None:
        """A request has arrived. Its session's inbox decides when it starts."""
        request = _Open(id_, method, params, _session_id(params))
        if method not in self._routes:
            self._refuse(request, errors.METHOD_UNKNOWN, f"this client does not have {method}")
            return
        if id_ in self._open or len(self._open) >= self._limit or self._ended:
            why = "its id is in use" if id_ in self._open else "too many requests are open"
            self._refuse(request, errors.INVALID_REQUEST, why)
            return
        self._open[id_] = request
        session = None if request.session_id is None else self._session(request.session_id)
        if session is None:
            self._start(request)
        elif session.cancelling and method in _CANCELLED:
            self._answer(request, _CANCELLED[method])
        else:
            session.lane.start(lambda: self._start(request))

    def cancel(self, id_: Any) -> None:
        """The agent no longer wants an answer (``$/cancel_request``); it gets -32800."""
        if type(id_) not in (int, str):
            return
        request = self._open.get(id_)
        if request is not None:
            self._refuse(request, errors.CANCELLED, "cancelled on request")
            self._stop(request)

    def cancel_session(self, session_id: str) -> None:
        """A turn is cancelled: whoever is asked something there need not answer any more."""
        for request in list(self._open.values()):
            if request.session_id == session_id and request.method in _CANCELLED:
                self._answer(request, _CANCELLED[request.method])
                self._stop(request)

    async def close(self) -> None:
        """Stop all services, without answers: there is nobody to get them."""
        self._ended = True
        self._open.clear()
        await self._owner.close()

    def forget(self) -> None:
        """The agent has gone: stop what runs for it."""
        self._ended = True
        for request in list(self._open.values()):
            request.answered = True
            self._stop(request)
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
        route = self._routes[request.method]
        try:
            params = (
                _decode(request.params or b"{}")
                if route.params is None
                else decode(route.params, request.params)
            )
            result = await route.serve(params, request.session_id)
        except asyncio.CancelledError:
            if request.answered:
                raise
            self._refuse(request, errors.INTERNAL, f"{request.method} was cancelled here")
            raise
        except Refusal as refusal:
            self._refuse(request, refusal.number, refusal.message, refusal.data)
        except (Misshapen, msgspec.MsgspecError) as error:
            self._refuse(request, errors.INVALID_PARAMS, str(error))
        except Exception as error:  # noqa: BLE001  # a service is user code
            self._refuse(request, errors.INTERNAL, f"{request.method} failed here")
            self._failed(request.method, error)
        else:
            self._answer(request, result)
        finally:
            inside.active = False

    def _answer(self, request: _Open, result: Any) -> None:
        if self._close(request):
            # A Base without anything set is {}; None is what an extension may answer.
            self._post({"id": request.id, "result": result if result is not None else {}})

    def _refuse(self, request: _Open, number: int, message: str, data: Any = None) -> None:
        if self._close(request):
            error: dict[str, Any] = {"code": number, "message": message}
            if data is not None:
                error["data"] = data
            self._post({"id": request.id, "error": error})

    def _close(self, request: _Open) -> bool:
        if request.answered:
            return False
        request.answered = True
        if self._open.get(request.id) is request:
            del self._open[request.id]
        return True


class _OfSession(msgspec.Struct, rename="camel", gc=False):
    session_id: str | None = None


def _session_id(params: bytes) -> str | None:
    try:
        return msgspec.json.decode(params, type=_OfSession).session_id
    except (msgspec.MsgspecError, RecursionError):
        return None
