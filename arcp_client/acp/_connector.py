"""Makes the connector of an agent from a command, a URL or a connector."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from pydantic import SecretStr

from arcp_client import _arguments as check
from arcp_client import transports
from arcp_client.acp.limits import AcpLimits
from arcp_client.transports.base import Connector
from arcp_client.transports.stdio import StdioConnector

__all__ = ["asks_once", "connector_for", "name_of"]

_WEBSOCKETS = ("ws://", "wss://")
_HTTP = ("http://", "https://")


def connector_for(
    argv: Any,
    *,
    cwd: str | os.PathLike[str] | None,
    env: Mapping[str, str] | None,
    token: str | SecretStr | None,
    limits: AcpLimits,
) -> tuple[Connector, str]:
    """Return the connector, and the agent's full name for messages.

    Raises:
        TypeError, ValueError: an argument is wrong or does not fit the kind of agent.
    """
    if isinstance(argv, str) and "://" in argv:
        if env is not None:
            raise ValueError("env is for an agent that is a program, not for one behind a URL")
        connector = _remote(argv, token, limits)
        return connector, connector.target
    if token is not None:
        raise ValueError(
            "token is for an agent behind a URL of HTTP or WebSocket; give a connector its headers="
        )
    if isinstance(argv, Connector):
        return argv, argv.target
    check.arguments("argv", argv)
    words: Sequence[str | os.PathLike[str]] = argv
    program = StdioConnector(words, cwd=cwd, env=env, max_line=limits.max_line)
    return program, " ".join(os.fspath(part) for part in words)


def _remote(url: str, token: str | SecretStr | None, limits: AcpLimits) -> Connector:
    over_http = url.lower().startswith(_HTTP)
    if not over_http and not url.lower().startswith(_WEBSOCKETS):
        raise ValueError(
            "the URL of an agent in argv must begin with ws://, wss://, http:// or https://"
        )
    headers: dict[str, str] = {}
    if token is not None:
        if not isinstance(token, str | SecretStr):  # the value is not shown: it may be a secret
            raise TypeError(f"token must be a str or a SecretStr, not {type(token).__name__}")
        secret = token.get_secret_value() if isinstance(token, SecretStr) else token
        if not secret or not secret.isascii() or not secret.isprintable():
            raise ValueError("token must be printable ASCII and not empty")
        headers["Authorization"] = f"Bearer {secret}"
    if over_http:
        module = importlib.import_module("arcp_client.acp._http.connector")  # needs aiohttp
        http: Connector = module.HttpConnector(url, headers=headers, max_frame=limits.max_line)
        return http
    return transports.WebSocketConnector(url, headers=headers, max_frame=limits.max_line)


def name_of(argv: Any, connector: Connector) -> str:
    """Return the agent's short name for messages."""
    if isinstance(argv, str | Connector):
        return connector.target
    return PurePath(argv[0]).name


def asks_once(connector: Connector) -> bool:
    """Whether a link may take one ``initialize`` only, so that another one needs a new link.

    The servers of the protocol's SDK for WebSockets are like that. A link over HTTP begins anew
    with each ``initialize``.
    """
    return connector.target.startswith(_WEBSOCKETS)
