"""Shares one aiohttp session among the WebSocket links of an event loop.

A session and its connector take more memory than the link. They hold nothing of a link: connections
are neither kept for later requests nor are names cached.
"""

from __future__ import annotations

import asyncio
import weakref
from typing import ClassVar

import aiohttp

from arcp_client.transports._connect import refuse_redirect

__all__ = ["SharedSession"]


class SharedSession:
    """An aiohttp session with its users; it is closed when the last of them has left.

    Attributes:
        session: the session.
    """

    # Only the users refer to the session, because it refers to its loop, which is the key.
    _by_loop: ClassVar[
        weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, weakref.ref[SharedSession]]
    ] = weakref.WeakKeyDictionary()

    def __init__(self) -> None:
        self._users = 0
        self.session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, force_close=True, use_dns_cache=False),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None),
            middlewares=(refuse_redirect,),
        )

    @classmethod
    def enter(cls) -> SharedSession:
        """Become a user of the running loop's session, which is made for the first one."""
        loop = asyncio.get_running_loop()
        known = cls._by_loop.get(loop)
        shared = known() if known is not None else None
        if shared is None:
            shared = cls()
            cls._by_loop[loop] = weakref.ref(shared)
        shared._users += 1
        return shared

    async def leave(self) -> None:
        """Cease to be a user."""
        self._users -= 1
        if not self._users:
            self._by_loop.pop(asyncio.get_running_loop(), None)
            await self.session.close()
