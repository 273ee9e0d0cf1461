"""First frames of each link in, the hello, the welcome or the reason of a refusal out (§6.1–§6.3).

One `Handshake` serves all links of a client: it knows what to present, and what became of it.
"""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import SecretStr

from arcp_client._protocol.resume import Next, ResumeState
from arcp_client._wire import dialect
from arcp_client._wire.codec import ControlFrame, encode
from arcp_client._wire.dialect import Dialect
from arcp_client._wire.ids import new_id, new_prefixed_id
from arcp_client._wire.messages import Auth, Capabilities, Hello
from arcp_client._wire.replies import Refusal, Welcome, read_refusal, read_welcome, reply_to
from arcp_client.errors import (
    ArcpError,
    RemoteProtocolError,
    ResumeExpired,
    SessionClosed,
    Unauthenticated,
    request_error,
)
from arcp_client.models import Checkpoint, ClientInfo

__all__ = ["Handshake"]


class Handshake:
    """The hellos of one client.

    Args:
        client: who the client says it is.
        features: what it offers.
        checkpoint: the session to go on with.
        spoken: the runtime's dialect, where it is known before the first welcome.

    Attributes:
        had_session: there was a session before; the next one goes on with it or takes its place.
        spoken: the runtime's dialect, ``None`` before the first welcome.
    """

    def __init__(
        self,
        client: ClientInfo,
        features: Iterable[str],
        *,
        checkpoint: Checkpoint | None = None,
        spoken: Dialect | None = None,
    ) -> None:
        self._client = client
        self._features = tuple(features)
        self._override = spoken
        self.spoken = spoken
        self.had_session = checkpoint is not None
        self._resume = ResumeState()
        if checkpoint is not None:
            token = SecretStr(checkpoint.resume_token) if checkpoint.resume_token else None
            self._resume = ResumeState(session_id=checkpoint.session_id or None, token=token)
        self._own_id = new_prefixed_id("sess")
        self._hello_id = ""
        self._resumed = False

    @property
    def session_id(self) -> str | None:
        """The session to go on with; ``None`` if there is none."""
        return self._resume.session_id

    @property
    def token(self) -> SecretStr | None:
        """The newest resume token."""
        return self._resume.token

    @property
    def resumable(self) -> bool:
        """Whether a new link could go on with this session."""
        return self._resume.possible

    def hello(self, token: SecretStr, cursor: int) -> bytes:
        """The first frame of a link; asks to resume after ``cursor`` if there is something to."""
        block = self._resume.block(cursor, token)
        if block is None:
            self._own_id = new_prefixed_id("sess")
        self._hello_id = new_id()
        hello = Hello(
            client=self._client,
            auth=Auth(token=token),
            capabilities=Capabilities(features=self._features),
            resume=block,
        )
        # Always with a session id: one runtime takes it from here, the others ignore it.
        session_id = self._own_id if block is None else block.session_id
        return encode(dialect.HELLO, hello.wire(), id=self._hello_id, session_id=session_id)

    def read(self, frame: ControlFrame) -> Welcome | ArcpError | None:
        """The welcome; or why this link is of no use; or nothing, for what says neither."""
        if frame.type == dialect.WELCOME:
            welcome = read_welcome(frame, frozenset(self._features))
            return (
                welcome if welcome.info.id else RemoteProtocolError("the welcome names no session")
            )
        if frame.type in dialect.LEGACY_TYPES:
            return RemoteProtocolError(
                f"the peer speaks another protocol ({frame.type}) under the same version:"
                " its family (session.open, tool.invoke) is not supported"
            )
        if frame.type in (dialect.SESSION_ERROR, dialect.JOB_ERROR):
            return self._refused(read_refusal(frame))
        if frame.type in (dialect.CLOSED, dialect.BYE):
            return SessionClosed("the runtime closed the session during the handshake")
        return None

    def welcomed(self, welcome: Welcome) -> bool:
        """The welcome is taken; True if the session went on (§6.3)."""
        self._resumed = self._resume.welcomed(welcome)
        self.spoken = self._override or welcome.dialect
        self.had_session = True
        return self._resumed

    def refused_late(self, frame: ControlFrame, *, asked: bool) -> ArcpError | None:
        """Why the session cannot go on, if this error refuses a resume that was welcomed (§6.3).

        One runtime welcomes first and looks into its buffer then.

        Args:
            frame: an error of the session, naming no request that is known.
            asked: whether it may be the answer to something else.
        """
        if not self._resumed:
            return None
        refusal = read_refusal(frame)
        about_hello = reply_to(frame) == self._hello_id
        plain = not asked and refusal.code == dialect.PERMISSION_DENIED
        if not about_hello and not plain and refusal.code != dialect.RESUME_WINDOW_EXPIRED:
            return None
        self._resume.forget()
        return ResumeExpired(f"the runtime refused the resume ({_text(refusal)})")

    def left(self, now: float) -> None:
        """The link is gone."""
        self._resumed = False
        self._resume.left(now)

    def _refused(self, refusal: Refusal) -> ArcpError:
        step = self._resume.refused(refusal, self.spoken)
        if step is not Next.GIVE_UP:
            if step is Next.FRESH:
                self._resume.forget()
            return ResumeExpired(f"the runtime refused the resume ({_text(refusal)})")
        if refusal.code == dialect.RESUME_WINDOW_EXPIRED:
            text = f"the runtime refuses new sessions as if they had expired ({_text(refusal)})"
            return ResumeExpired(text, permanent=True)
        if refusal.code == dialect.UNAUTHENTICATED:
            return Unauthenticated(f"the runtime refused the token ({_text(refusal)})")
        return request_error(
            refusal.code, refusal.message, retryable=refusal.retryable, details=refusal.details
        )


def _text(refusal: Refusal) -> str:
    return f"{refusal.code}: {refusal.message}" if refusal.message else refusal.code
