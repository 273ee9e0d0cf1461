"""Opens links in a loop, and decides whether and when to retry.

The settings are in `arcp_client.policy.Reconnect`. Its function `classify` decides whether to retry
after a failure; without this function, `may_retry` decides. Its `wait`, an object of tenacity,
gives the delay before the retry, and its `stop` limits the retries.

See rule S8 in docs/explanation/rules.md.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable

from pydantic import SecretStr
from tenacity import AsyncRetrying, RetryCallState

from arcp_client._deadline import Deadline
from arcp_client._link.driver import Driver
from arcp_client._link.ingress import Ingress
from arcp_client._link.link import Link
from arcp_client._log_fields import log_fields
from arcp_client._protocol.session import State
from arcp_client._scrubbing import Scrubber
from arcp_client._tasks import pass_on
from arcp_client.errors import (
    ArcpError,
    ConnectFailed,
    HandshakeTimeout,
    LinkError,
    LinkLost,
    RequestError,
    ResumeExpired,
    SessionClosed,
    Unauthenticated,
)
from arcp_client.policy import Reconnect, Timeouts
from arcp_client.state import Connecting, LinkState, Reconnecting
from arcp_client.transports.base import Connector, Transport

__all__ = ["BearerToken", "ReconnectManager", "RetryDelays", "TokenSource", "may_retry"]

_log = logging.getLogger("arcp_client.link")

Token = str | SecretStr | None
TokenSource = Token | Callable[[], Token | Awaitable[Token]]


def may_retry(failure: BaseException, *, live_before: bool = False) -> bool:
    """Whether to try another link, depending on the failure and on earlier success.

    ================================================  =============  ===========
    failure                                           first connect  live before
    ================================================  =============  ===========
    the network, a restarting server                  retry          retry
    a refused resume                                  retry          retry
    a new session refused with RESUME_WINDOW_EXPIRED  retry once     retry once
    a wrong path, a login page, a wrong certificate   final          retry
    another protocol, a refused hello                 final          retry
    a refused token                                   final          final
    ================================================  =============  ===========

    During a deployment or behind a captive portal, a right address looks wrong for a while. After
    the first welcome, this is the likely cause; before it, a wrong address is more likely.

    Args:
        failure: the failure of the link or of the attempt.
        live_before: whether the client had a session on a link before.
    """
    if isinstance(failure, Unauthenticated):
        return False
    if isinstance(failure, ResumeExpired):
        return not failure.permanent
    if live_before:
        return isinstance(failure, ArcpError)
    if isinstance(failure, ConnectFailed):
        return not failure.permanent
    if isinstance(failure, RequestError):
        return failure.retryable
    return isinstance(failure, LinkError | SessionClosed)


class RetryDelays:
    """Computes the delays between attempts.

    After a link that was live for ``reset_after`` seconds or brought new events, the delays begin
    with the first one again.

    Args:
        policy: tenacity's wait and stop objects, and ``reset_after``.
    """

    def __init__(self, policy: Reconnect) -> None:
        self._policy = policy
        self.attempt = 0
        self._since: float | None = None

    def link_ended(self, seconds: float, *, brought_events: bool = False) -> None:
        """Reset the delays if the link was live for ``reset_after`` or brought new events."""
        if brought_events or seconds >= self._policy.reset_after:
            self.attempt = 0
            self._since = None

    def next(self, now: float) -> float | None:
        """Seconds until the next attempt; ``None`` if the policy stops."""
        if self._since is None:
            self._since = now
        self.attempt += 1
        retrying = AsyncRetrying(wait=self._policy.wait, stop=self._policy.stop, reraise=True)
        state = RetryCallState(retrying, None, (), {})
        state.attempt_number = self.attempt
        # From 0 on: the difference of two large times may be rounded to less than the limit.
        state.start_time, state.outcome_timestamp = 0.0, now - self._since
        if self._policy.stop(state):
            return None
        return max(float(self._policy.wait(state)), 0.0)


class BearerToken:
    """Provides the bearer token. If the runtime refuses a token, asks the provider for another one.

    Args:
        source: the token, or a sync or async function that provides it.
    """

    def __init__(self, source: TokenSource) -> None:
        self._source = source
        self._token = SecretStr("")
        self._refused: SecretStr | None = None

    async def get(self) -> SecretStr:
        """Return the token for the next hello.

        Raises:
            Unauthenticated: the provider returned the refused token again.
            ConnectFailed: the provider raised, or did not return a token.
        """
        value: object = await self._ask() if callable(self._source) else self._source
        if not isinstance(value, str | SecretStr | None):
            kind = type(value).__name__
            raise ConnectFailed(
                f"the token must be a str or a SecretStr, not {kind}", permanent=True
            )
        token = value if isinstance(value, SecretStr) else SecretStr(value or "")
        if self._refused is not None and token == self._refused:
            raise Unauthenticated("the runtime refused the token, and the provider has no other")
        self._token = token
        return token

    async def _ask(self) -> Token:
        assert callable(self._source)
        task = asyncio.current_task()
        try:
            given = self._source()
            return await given if inspect.isawaitable(given) else given
        except BaseException as error:  # noqa: BLE001  a user's function may raise anything
            pass_on(error, task)
            kind = type(error).__name__
        # Raised outside of the handler: the provider's error may contain a secret, and must not
        # become the context of this one.
        raise ConnectFailed(f"the token provider raised {kind}")

    def refused(self) -> bool:
        """Record that the runtime refused the token; True if the provider may have another one."""
        if self._refused is not None or not callable(self._source):
            return False
        self._refused = self._token
        return True

    def accepted(self) -> None:
        """Record that the runtime accepted the token."""
        self._refused = None


class ReconnectManager:
    """Runs a session on successive links until it ends.

    Args:
        connector: makes transports.
        driver: runs the session.
        token: the bearer token, or a provider of it.
        policy: the delays, the limit of retries, and which failures to retry.
        timeouts: time limits of connecting and closing.
        ingress, outbox: see `Link`.
        changed: called with every new state.

    Attributes:
        link: the current link, from its hello on.
        links: number of links that have been live.
        last_failure: the failure of the last link or attempt.
    """

    def __init__(
        self,
        connector: Connector,
        driver: Driver,
        *,
        token: TokenSource,
        policy: Reconnect,
        timeouts: Timeouts,
        ingress: Ingress,
        outbox: int,
        changed: Callable[[LinkState], None],
    ) -> None:
        self._outbox = outbox
        self.link: Link | None = None
        self.links = 0
        self.last_failure: BaseException | None = None
        self._connector = connector
        self._driver = driver
        self._credential = BearerToken(token)
        self._policy = policy
        self._timeouts = timeouts
        self._ingress = ingress
        self._changed = changed
        self._loop = asyncio.get_running_loop()
        self._backoff = RetryDelays(policy)
        self._live_since: float | None = None
        self._events_before = 0
        self._fresh_at_once = True  # no delay before a new session: the runtime answers
        self._warned = False
        self._decided = False
        self._close_by: Deadline | None = None
        self._stopped: asyncio.Future[None] | None = None
        self._short = False  # this attempt had less than the usual time
        self._delay: float | None = None
        self._connect_deadline: float | None = self._loop.time() + timeouts.open

    def opened(self) -> None:
        """Record the welcome of the current link."""
        if self.link is not None:
            self.link.opened()
        self._live_since = self._loop.time()
        self._events_before = self._driver.events
        self._connect_deadline = None
        self._fresh_at_once = True
        self._warned = False
        self.links += 1
        self._credential.accepted()

    def close_by(self, deadline: Deadline) -> None:
        """Set the deadline of the client's close, which then limits the time for the link's end."""
        self._close_by = deadline
        if self.link is not None:
            self.link.close_by(deadline)

    async def run(self) -> None:
        """Connect and reconnect until the session ends. Cancelling stops it at once."""
        try:
            self._changed(Connecting(1))
            while not self._over:
                self._live_since = None
                self._decided = False
                self._decide(await self._attempt())
                if self._delay is None or self._over:
                    return
                self._stopped = self._loop.create_future()
                await asyncio.wait({self._stopped}, timeout=self._delay)
        finally:
            self._driver.stop()

    def stop(self) -> None:
        """End the wait for the next attempt, because the session has ended."""
        if self._stopped is not None and not self._stopped.done():
            self._stopped.set_result(None)

    async def _attempt(self) -> ArcpError:
        """Run one link from the connect to its end; return the reason of its end."""
        started = self._loop.time()
        limit = self._timeouts.connect
        if self._connect_deadline is not None:
            limit = min(limit, max(self._connect_deadline - started, 0.001))
        self._short = limit < self._timeouts.connect
        try:
            async with asyncio.timeout(limit):
                token = await self._credential.get()
                transport = await self._connect()
        except ArcpError as error:  # some of them are a TimeoutError too
            return error
        except TimeoutError:
            return self._more_specific(
                ConnectFailed(f"no connection to {self._connector.target} within {limit:.3g} s")
            )
        self.link = Link(
            transport,
            self._driver,
            ingress=self._ingress,
            outbox=self._outbox,
            ended=self._decide,
        )
        if self._close_by is not None:
            self.link.close_by(self._close_by)
        left = limit - (self._loop.time() - started)
        try:
            return await self.link.run(
                token, handshake_timeout=max(left, 0.001), close_timeout=self._timeouts.close
            )
        finally:
            self.link = None

    def _more_specific(self, timeout: ArcpError) -> ArcpError:
        """The previous failure, if this attempt timed out only because little time was left."""
        before = self.last_failure
        return before if self._short and isinstance(before, ArcpError) else timeout

    async def _connect(self) -> Transport:
        task = asyncio.current_task()
        try:
            return await self._connector.connect()
        except (ArcpError, asyncio.CancelledError):
            raise
        except BaseException as error:  # a user's connector may raise anything
            pass_on(error, task)
            raise ConnectFailed(
                f"{self._connector.target}: {type(error).__name__}: {error}"
            ) from error

    def _decide(self, cause: ArcpError) -> None:
        """Decide, once, what follows the end of a link. Called before the transport is closed."""
        if self._decided or self._over:
            return
        self._decided = True
        if isinstance(cause, HandshakeTimeout):
            cause = self._more_specific(cause)
        self.last_failure = cause
        self._delay = self._delay_after(cause)
        if self._delay is None:
            self._driver.session.end(self._final_error(cause))
            self._driver.carry_out()

    @property
    def _over(self) -> bool:
        return self._driver.session.state is State.ENDED

    def _delay_after(self, cause: ArcpError) -> float | None:
        """Seconds until the next attempt; ``None`` if there is none. Announces the new state."""
        now = self._loop.time()
        if self._live_since is not None:
            brought = self._driver.events > self._events_before
            self._backoff.link_ended(now - self._live_since, brought_events=brought)
        delay = self._retry_delay(cause, now)
        if delay is None:
            return None
        if self._connect_deadline is None:
            self._warn_of(cause)
            attempt = max(self._backoff.attempt, 1)
            self._log_retry(attempt, delay, cause)
            self._changed(Reconnecting(attempt, delay, cause))
        elif now + delay >= self._connect_deadline:
            return None
        else:
            self._log_retry(self._backoff.attempt + 1, delay, cause)
            self._changed(Connecting(self._backoff.attempt + 1, cause))
        return delay

    def _retry_delay(self, cause: ArcpError, now: float) -> float | None:
        if isinstance(cause, Unauthenticated):
            return 0.0 if self._credential.refused() else None
        try:
            classify = self._policy.classify
            if not (classify(cause) if classify else self._may_retry(cause)):
                return None
            delay = self._backoff.next(now)
        except BaseException as error:  # noqa: BLE001  a user's function may raise anything
            pass_on(error)
            failure = LinkLost(f"{cause}; and the reconnect policy raised {type(error).__name__}")
            failure.__cause__ = error
            self._driver.session.end(failure)
            return None
        gone = isinstance(cause, ResumeExpired) and self._driver.session.resume_token is None
        if delay is not None and gone and self._fresh_at_once:
            self._fresh_at_once = False
            return 0.0
        return delay

    def _may_retry(self, cause: ArcpError) -> bool:
        return may_retry(cause, live_before=self._connect_deadline is None)

    def _log_retry(self, attempt: int, delay: float, cause: ArcpError) -> None:
        _log.info(
            "no link to %s: %s; attempt %d in %.3g s",
            Scrubber().text(self._connector.target),
            cause,
            attempt,
            delay,
            extra=log_fields(session=self._driver.session.session_id),
        )

    def _warn_of(self, cause: ArcpError) -> None:
        """Warn that an address is retried although it looks wrong; once for each outage."""
        if not self._warned and not may_retry(cause):
            self._warned = True
            _log.warning(
                "retrying, because this runtime was reached before: %s",
                cause,
                extra=log_fields(session=self._driver.session.session_id),
            )

    def _final_error(self, cause: ArcpError) -> ArcpError:
        """The error for users: ConnectFailed before the first welcome, except a refused token."""
        if self._connect_deadline is None or isinstance(cause, Unauthenticated | RequestError):
            return cause
        if isinstance(cause, ConnectFailed | ResumeExpired) and cause.permanent:
            return cause
        attempts = max(self._backoff.attempt, 1)
        final = ConnectFailed(
            f"no session with {self._connector.target} after {attempts} "
            f"{'attempt' if attempts == 1 else 'attempts'}: {cause}",
            permanent=not may_retry(cause),
            attempts=attempts,
        )
        final.__cause__ = cause
        return final
