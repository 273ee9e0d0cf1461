"""Opens and resumes sessions: checks the token, chooses features, sends the welcome (§6.1–§6.3)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from arcp_client._log_fields import log_fields
from arcp_client._security import WrongTokens
from arcp_client._tasks import TaskOwner, pass_on
from arcp_client._wire import names
from arcp_client._wire.codec import ControlFrame
from arcp_client._wire.ids import now_text
from arcp_client._wire.messages import Auth, Capabilities, Hello, Resume, ResumeBlock
from arcp_client.errors import InvalidRequest, RequestError, Unauthenticated, request_error
from arcp_client.runtime._connection import frames
from arcp_client.runtime._connection.authentication import Gate
from arcp_client.runtime._connection.connection import Connection
from arcp_client.runtime._connection.payloads import checked
from arcp_client.runtime._log.directory import SharedSessions
from arcp_client.runtime._log.entries import Watch
from arcp_client.runtime._sessions.registry import SessionRegistry
from arcp_client.runtime._sessions.resume_tokens import token_hash
from arcp_client.runtime._sessions.session import ServerSession

__all__ = ["Identity", "ServerHandshake"]

_log = logging.getLogger("arcp_client.runtime")


@dataclass(frozen=True, slots=True)
class Identity:
    """The runtime's description in the welcome."""

    name: str
    version: str
    sdk: str
    resume_window: float
    heartbeat_interval: float | None


class ServerHandshake:
    """Opens and resumes sessions.

    Args:
        identity: the runtime's description in the welcome.
        gate: authenticates clients.
        sessions: the sessions of the runtime.
        shared: the sessions of all replicas.
        follow: continues the subscriptions of a session that was taken over.
        wrong_tokens: counts wrong tokens by address.
        tasks: owns the steps that follow the authentication, which are taken to their end even if
            the link is cancelled: a session that was opened or taken over must be entered or left.
        inventory: returns the agents; called for each welcome.
        features: returns the features offered on a connection; called for each welcome.
        stored: waits until all changes are stored durably.
    """

    def __init__(
        self,
        identity: Identity,
        gate: Gate,
        sessions: SessionRegistry,
        wrong_tokens: WrongTokens,
        tasks: TaskOwner,
        *,
        shared: SharedSessions,
        follow: Callable[[ServerSession, Sequence[Watch]], Awaitable[None]],
        inventory: Callable[[], list[dict[str, Any]]],
        features: Callable[[Connection], frozenset[str]],
        stored: Callable[[], Awaitable[None]],
        resumed: Callable[[str], None] | None = None,
    ) -> None:
        self._resumed = resumed
        self._identity = identity
        self._gate = gate
        self._sessions = sessions
        self._wrong_tokens = wrong_tokens
        self._tasks = tasks
        self._shared = shared
        self._follow = follow
        self._inventory = inventory
        self._features = features
        self._stored = stored

    async def greet(self, connection: Connection, frame: ControlFrame) -> bool:
        """Answer a first frame. Return False if it was refused and the client may retry.

        After a refused resume the link stays open, because the next hello may request a new
        session. Every other refusal closes the link. A wrong token is answered after a delay.
        """
        address = connection.arrival.address
        task = asyncio.current_task()
        try:
            if address is not None and self._wrong_tokens.full(address):
                raise request_error(
                    names.INTERNAL_ERROR,
                    "too many wrong tokens from this address; try again in a few seconds",
                    retryable=True,
                )
            if frame.type == names.HELLO:
                await self._hello(connection, checked(Hello, frame))
            elif frame.type == names.RESUME:
                await self._resume_first(connection, frame)
            else:
                raise InvalidRequest("the first message must be session.hello")
        except Unauthenticated as error:
            _log.warning("a client was refused: %s", error)
            if address is not None:
                await self._wrong_tokens.delay(address)
            refusal = request_error(names.UNAUTHENTICATED, str(error))
            connection.finish(frames.refusal(refusal, session_id=None, request_id=frame.id))
        except RequestError as error:
            connection.refuse(frame, error)
            if error.code in _RESUME_REFUSED:
                return False
            connection.finish()
        except BaseException as error:  # noqa: BLE001 - an authenticator may raise anything
            pass_on(error, task)
            connection.refuse(frame, error)
            connection.finish()
        return True

    async def _hello(self, connection: Connection, hello: Hello) -> None:
        principal = await self._gate.principal(hello.auth)
        features = self._features(connection).intersection(hello.capabilities.features)
        if hello.resume is None:
            client = f"{hello.client.name} {hello.client.version}"[:200]
            entering = self._open(connection, principal, client, features)
        else:
            entering = self._resume(connection, principal, hello.resume, features)
        await self._tasks.complete(entering, name="enter")

    async def _open(
        self, connection: Connection, principal: str, client: str, features: frozenset[str]
    ) -> None:
        session = self._sessions.open(principal)
        session.features = features
        session.client = client
        try:
            await self._shared.open(session.state())
            await self._enter(connection, session, 0, session.tokens.rotate())
        except Exception:  # the client never learned of the session
            self._sessions.expire(session)
            raise

    async def _resume_first(self, connection: Connection, frame: ControlFrame) -> None:
        request = checked(Resume, frame)
        # A resume token belongs to a principal; the client must authenticate too.
        principal = await self._gate.principal(request.auth or Auth())
        features = self._offered(connection, request)
        resuming = self._resume(connection, principal, _block(request, frame), features)
        await self._tasks.complete(resuming, name="enter")

    async def resume_later(
        self, connection: Connection, session: ServerSession, frame: ControlFrame
    ) -> None:
        """Handle ``session.resume`` after a hello: the resumed session replaces the new one.

        Raises:
            RequestError: the resume is refused; the new session continues.
        """
        request = checked(Resume, frame)
        if session.log.last or session.jobs or session.feeds:
            raise InvalidRequest("this session is in use; resume on a new connection")
        features = self._offered(connection, request)
        if request.capabilities is None:
            features = session.features
        await self._resume(connection, session.principal, _block(request, frame), features)
        self._sessions.expire(session)

    def _offered(self, connection: Connection, request: Resume) -> frozenset[str] | None:
        capabilities: Capabilities | None = request.capabilities
        if capabilities is None:
            return None
        return self._features(connection).intersection(capabilities.features)

    async def _resume(
        self,
        connection: Connection,
        principal: str,
        block: ResumeBlock,
        features: frozenset[str] | None,
    ) -> None:
        token = block.resume_token.get_secret_value()
        last = block.last_event_seq
        taken = await self._shared.take(principal, block.session_id, token_hash(token), last)
        if taken is not None:
            adopted = self._sessions.adopt(taken)
            await self._follow(adopted, taken.watches)
            if adopted.lost:  # meanwhile: to another replica, or with the lease of this one
                raise _moved()
        session_id = block.session_id if taken is None else taken.state.id
        session = self._sessions.resume(principal, session_id, token, last)
        if features is None:  # as before, but without the features that this link cannot have
            features = session.features & self._features(connection)
        session.features = features
        _log.info(
            "session %s of %s resumed after %d",
            session.id,
            principal,
            last,
            extra=log_fields(session=session.id, seq=last),
        )
        if self._resumed is not None:
            self._resumed(session.id)
        await self._enter(connection, session, last, session.tokens.rotate(token), resumed=True)

    async def _enter(
        self,
        connection: Connection,
        session: ServerSession,
        cursor: int,
        token: str,
        *,
        resumed: bool = False,
    ) -> None:
        identity = self._identity
        payload: dict[str, Any] = {
            "session_id": session.id,
            "accepted_at": now_text(),
            "runtime": {"name": identity.name, "version": identity.version, "sdk": identity.sdk},
            "resume_token": token,
            "resume_window_sec": _number(identity.resume_window),
            "capabilities": {
                "encodings": ["json"],
                "features": [f for f in names.OFFERED if f in session.features],
                "agents": self._inventory(),
            },
            "resumed": resumed,
        }
        if identity.heartbeat_interval is not None and names.HEARTBEAT in session.features:
            payload["heartbeat_interval_sec"] = _number(identity.heartbeat_interval)
        session.keep_for = None if names.ACKS in session.features else identity.resume_window
        session.note()
        await self._stored()
        if session.lost:
            raise _moved()
        if session.expired:
            raise request_error(names.RESUME_WINDOW_EXPIRED, "the session has just expired")
        welcome = frames.control(names.WELCOME, payload, session_id=session.id)
        if connection.enter(session, cursor, welcome):
            connection.token = token_hash(token)
        elif not resumed:  # the client never learned of the session
            self._sessions.expire(session)
        else:
            session.tokens.withdraw(token)
            session.note()


_RESUME_REFUSED = frozenset({names.RESUME_WINDOW_EXPIRED, names.PERMISSION_DENIED})


def _moved() -> RequestError:
    return request_error(
        names.INTERNAL_ERROR, "this replica no longer holds the session", retryable=True
    )


def _block(request: Resume, frame: ControlFrame) -> ResumeBlock:
    return ResumeBlock(
        session_id=request.session_id or frame.session_id or None,
        resume_token=request.resume_token,
        last_event_seq=request.last_event_seq,
    )


def _number(seconds: float) -> int | float:
    # Some clients accept only whole seconds.
    return int(seconds) if seconds == int(seconds) else seconds
