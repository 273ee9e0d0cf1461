"""Opens and resumes sessions: hello, welcome, refusals (§6.1–§6.3, S5).

One `Handshake` serves all links of a client. The newest resume token counts. After a refused
resume, or a link that ended without an answer, the resume is tried again where that can help;
otherwise a new session is opened. The attempts are counted, so that a session is given up after a
limited time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from pydantic import SecretStr

from arcp_client._protocol.peer import Next, Peer
from arcp_client._wire import names
from arcp_client._wire.codec import ControlFrame, encode
from arcp_client._wire.ids import new_id, new_prefixed_id
from arcp_client._wire.messages import Auth, Capabilities, Hello, ResumeBlock
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

__all__ = ["CUTS", "REFUSALS", "Handshake", "Recognise", "ResumeState"]

REFUSALS: Final = 3
"""Transient refusals until a session is given up."""
CUTS: Final = 8
"""Links that may end without an answer to the resume: with the default delays, almost a minute."""

Recognise = Callable[[Mapping[str, Any], str], type[Peer]]
"""Returns the `Peer` class for a welcome, from its payload and envelope id."""


class Handshake:
    """The hellos of one client.

    Args:
        client: the name and version of the client.
        features: the features that the client offers.
        recognise: finds the `Peer` class of the runtime.
        checkpoint: the session to resume.
        spoken: the `Peer` class, if it is fixed.

    Attributes:
        had_session: a session existed before; the next one resumes or replaces it.
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
        self._own_id = new_prefixed_id("sess")
        self._hello_id = ""
        self._resumed = False

    @property
    def session_id(self) -> str | None:
        """The session to resume, or ``None``."""
        return self._resume.session_id

    @property
    def token(self) -> SecretStr | None:
        """The newest resume token."""
        return self._resume.token

    @property
    def resumable(self) -> bool:
        """Whether a new link could resume this session."""
        return self._resume.possible

    def hello(self, token: SecretStr, cursor: int) -> bytes:
        """The first frame of a link. It asks to resume after ``cursor`` if a session exists."""
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
        return encode(names.HELLO, hello.wire(), id=self._hello_id, session_id=session_id)

    def read(self, frame: ControlFrame, peer: Peer) -> Welcome | ArcpError | None:
        """Read the answer to a hello: a welcome, or an error that ends the link; else ``None``."""
        if frame.type == names.WELCOME:
            recognised = self._recognise(frame.payload, frame.id)
            welcome = read_welcome(frame, frozenset(self._features), recognised.name)
            if not welcome.info.id:
                return RemoteProtocolError("the welcome names no session")
            self.spoken = self._override or recognised
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
        """Accept a welcome. True if the session was resumed (§6.3)."""
        self._resumed = self._resume.welcomed(welcome)
        self.had_session = True
        return self._resumed

    def refused_late(self, frame: ControlFrame, *, asked: bool) -> ArcpError | None:
        """The error that ends the session, if a frame refuses a resume after its welcome (§6.3).

        One runtime sends the welcome before it checks its replay buffer.

        Args:
            frame: an error of the session that names no pending request.
            asked: whether the frame may answer another request.
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
        """The link has ended."""
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


class ResumeState:
    """The id and token of a session, and the count of failed resumes.

    Args:
        session_id: the session, ``None`` before the first welcome.
        token: its newest resume token.
        refusals: transient refusals until the session is given up.
        cuts: links that may end without an answer until the session is given up; 1 once the
            resume window has passed.
    """

    def __init__(
        self,
        *,
        session_id: str | None = None,
        token: SecretStr | None = None,
        refusals: int = REFUSALS,
        cuts: int = CUTS,
    ) -> None:
        self.session_id = session_id
        self.token = token
        self._limits = refusals, cuts
        self._window: float | None = None
        self._left_at: float | None = None
        self._fresh_refused = False
        self._clear()

    def _clear(self) -> None:
        self._refused = 0
        self._cut = 0
        self._presented = False
        self._stepped_back = False
        self._bearer: SecretStr | None = None
        self._doubted: SecretStr | None = None

    @property
    def possible(self) -> bool:
        """Whether there is a session to resume."""
        return self.session_id is not None and self.token is not None

    def block(self, cursor: int, bearer: SecretStr) -> ResumeBlock | None:
        """The resume block of a hello with that bearer token, ``None`` for a fresh session."""
        self._bearer = bearer
        if self._doubted is not None and self._doubted == bearer:
            # A hello with it was refused, as if it were no good, and there is no other one. The
            # resume token may be meant: a hello without one tells which.
            self.forget()
        if self.session_id is None or self.token is None:
            return None
        self._presented = True
        if self._stepped_back:
            cursor = max(cursor - 1, 0)
        return ResumeBlock(
            session_id=self.session_id, resume_token=self.token, last_event_seq=cursor
        )

    def welcomed(self, welcome: Welcome) -> bool:
        """Take over a welcome. True if the session was resumed."""
        resumed = self.possible and welcome.info.id == self.session_id
        self.session_id = welcome.info.id
        # One runtime does not rotate and may leave it out: then the old one still counts.
        if welcome.resume_token is not None or not resumed:
            self.token = welcome.resume_token
        self._window = welcome.info.resume_window
        self._left_at = None
        self._fresh_refused = False
        self._clear()
        return resumed

    def refused(self, refusal: ErrorReply, peer: Peer | None) -> Next:
        """The next step after a refused hello. On `Next.FRESH` the caller calls `forget`."""
        presented, self._presented = self._presented, False
        if not presented:
            if refusal.code != names.RESUME_WINDOW_EXPIRED or self._fresh_refused:
                return Next.GIVE_UP
            self._fresh_refused = True  # it may not have noticed that nothing was to be resumed
            return Next.FRESH
        if refusal.code == names.UNAUTHENTICATED and self._doubted is None:
            self._doubted = self._bearer
            return Next.AGAIN
        if refusal.code == names.RESUME_WINDOW_EXPIRED and peer is not None:
            step = peer.resume_refused()
            if step is Next.STEP_BACK:
                if not self._stepped_back:
                    self._stepped_back = True
                    return Next.AGAIN
                step = Next.FRESH
            transient = step is Next.AGAIN
        else:
            transient = refusal.code == names.PERMISSION_DENIED or refusal.retryable
        self._refused += 1
        if transient and self._refused < self._limits[0]:
            return Next.AGAIN
        return Next.FRESH

    def left(self, now: float) -> None:
        """Count a link that ended without an answer to the resume."""
        if self._left_at is None:
            self._left_at = now
        if not self._presented:
            return
        self._presented = False
        self._cut += 1
        expired = self._window is not None and now - self._left_at > self._window
        if expired or self._cut >= self._limits[1]:
            self.forget()

    def forget(self) -> None:
        """Drop the id and the token of the session."""
        self.session_id = None
        self.token = None
        self._window = None
        self._clear()


def _text(refusal: ErrorReply) -> str:
    return f"{refusal.code}: {refusal.message}" if refusal.message else refusal.code
