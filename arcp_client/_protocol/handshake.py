"""Opens and resumes sessions: hello, welcome, refusals (§6.1–§6.3).

One `Handshake` serves all links of a client, and always resumes with the newest resume token. A
resume fails if the runtime refuses it, or if its link ends without an answer. `resume` then decides
whether to try again or to open a new session. The number of attempts is limited.

See rule S5 in docs/explanation/rules.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from pydantic import SecretStr

from arcp_client._protocol.peer import Next, Peer
from arcp_client._protocol.resume import ResumeState
from arcp_client._wire import names
from arcp_client._wire.codec import ControlFrame, encode
from arcp_client._wire.ids import new_id, new_prefixed_id
from arcp_client._wire.messages import Auth, Capabilities, Hello
from arcp_client._wire.replies import ErrorReply, Welcome, read_refusal, read_welcome, reply_to
from arcp_client.errors import (
    ArcpError,
    RemoteProtocolError,
    ResumeExpired,
    SessionClosed,
    Unauthenticated,
    request_error,
)
from arcp_client.models import Checkpoint, ClientInfo

__all__ = ["Handshake", "Recognise"]

Recognise = Callable[[Mapping[str, Any], str], type[Peer]]
"""Returns the `Peer` class for a welcome, from its payload and envelope id."""


class Handshake:
    """The hellos of one client.

    Args:
        client: the name and version of the client.
        features: the features that the client offers.
        recognise: finds the `Peer` class of the runtime from its welcome.
        checkpoint: the session to resume.
        spoken: the `Peer` class; ``None`` to find it with ``recognise``.

    Attributes:
        had_session: a session existed before. The next welcome resumes or replaces it.
        spoken: the `Peer` class of the runtime, once known.
    """

    def __init__(
        self,
        client: ClientInfo,
        features: Iterable[str],
        *,
        recognise: Recognise,
        checkpoint: Checkpoint | None = None,
        spoken: type[Peer] | None = None,
    ) -> None:
        self._client = client
        self._features = tuple(features)
        self._recognise = recognise
        self._override = spoken
        self.spoken = spoken
        self.had_session = checkpoint is not None
        self._resume = ResumeState()
        if checkpoint is not None:
            token = SecretStr(checkpoint.resume_token) if checkpoint.resume_token else None
            self._resume = ResumeState(session_id=checkpoint.session_id or None, token=token)
        self._own_id = ""
        self._hello_id = ""
        self._resumed = False

    @property
    def session_id(self) -> str | None:
        """The id of the session to resume, or ``None``."""
        return self._resume.session_id

    @property
    def token(self) -> SecretStr | None:
        """The newest resume token."""
        return self._resume.token

    @property
    def resumable(self) -> bool:
        """Whether a new link could resume the session."""
        return self._resume.possible

    def hello(self, token: SecretStr, cursor: int) -> bytes:
        """Make the first frame of a link, with a resume after ``cursor`` if a session exists."""
        block = self._resume.block(cursor, token)
        if block is None:
            self._own_id = new_prefixed_id("sess")
        self._hello_id = new_id()
        hello = Hello(
            client=self._client,
            auth=Auth(token=token),
            capabilities=_capabilities(self._features),
            resume=block,
        )
        # Always with a session id: one runtime takes it from here, the others ignore it.
        session_id = self._own_id if block is None else block.session_id
        return encode(names.HELLO, hello.wire(), id=self._hello_id, session_id=session_id)

    def read(self, frame: ControlFrame, peer: Peer) -> Welcome | ArcpError | None:
        """Read the answer to a hello: a welcome, or an error that ends the link; else ``None``."""
        if frame.type == names.WELCOME:
            recognised = self._recognise(frame.payload, frame.id)
            spoken = self._override or recognised
            welcome = read_welcome(
                frame,
                frozenset(self._features),
                recognised.name,
                jobs_run_on=not spoken.session_ends_jobs,
            )
            if not welcome.info.id:
                return RemoteProtocolError("the welcome names no session")
            self.spoken = spoken
            return welcome
        if frame.type in names.LEGACY_TYPES:
            return RemoteProtocolError(
                f"the peer speaks another protocol ({frame.type}) under the same version:"
                " its family (session.open, tool.invoke) is not supported"
            )
        if frame.type in (names.SESSION_ERROR, names.JOB_ERROR):
            return self._refused(read_refusal(frame), peer)
        if frame.type in (names.CLOSED, names.BYE):
            return SessionClosed("the runtime closed the session during the handshake")
        return None

    def welcomed(self, welcome: Welcome) -> bool:
        """Accept a welcome. Returns whether the runtime resumed the session (§6.3)."""
        self._resumed = self._resume.welcomed(welcome)
        self.had_session = True
        return self._resumed

    def refused_late(self, frame: ControlFrame, *, asked: bool) -> ArcpError | None:
        """The error that ends the session, if a frame refuses a resume after its welcome (§6.3).

        Some runtimes send the welcome before they check their replay buffer.

        Args:
            frame: an error of the session that names no pending request.
            asked: whether the frame may be the answer to a request.
        """
        if not self._resumed:
            return None
        refusal = read_refusal(frame)
        about_hello = reply_to(frame) == self._hello_id
        plain = not asked and refusal.code == names.PERMISSION_DENIED
        if not about_hello and not plain and refusal.code != names.RESUME_WINDOW_EXPIRED:
            return None
        self._resume.forget()
        return ResumeExpired(f"the runtime refused the resume ({_text(refusal)})")

    def left(self, now: float) -> None:
        """Note that the link has ended."""
        self._resumed = False
        self._resume.left(now)

    def _refused(self, refusal: ErrorReply, peer: Peer) -> ArcpError:
        # Before the first welcome it is not known how this runtime refuses a resume.
        step = self._resume.refused(refusal, peer if self.spoken is not None else None)
        if step is not Next.GIVE_UP:
            if step is Next.FRESH:
                self._resume.forget()
            return ResumeExpired(f"the runtime refused the resume ({_text(refusal)})")
        if refusal.code == names.RESUME_WINDOW_EXPIRED:
            text = f"the runtime refuses new sessions as if they had expired ({_text(refusal)})"
            return ResumeExpired(text, permanent=True)
        if refusal.code == names.UNAUTHENTICATED:
            return Unauthenticated(f"the runtime refused the token ({_text(refusal)})")
        return request_error(
            refusal.code, refusal.message, retryable=refusal.retryable, details=refusal.details
        )


@lru_cache(maxsize=16)
def _capabilities(features: tuple[str, ...]) -> Capabilities:
    """The offer of a client, checked once for all clients that offer the same features."""
    return Capabilities(features=features)


def _text(refusal: ErrorReply) -> str:
    return f"{refusal.code}: {refusal.message}" if refusal.message else refusal.code
