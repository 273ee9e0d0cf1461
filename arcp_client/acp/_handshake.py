"""Negotiates the version of the protocol and the capabilities with an agent.

``initialize`` names the client's preferred version. If the agent refuses it, or answers with
another version that the client speaks, ``initialize`` is sent again with that version.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

from arcp_client._arguments import an_instance
from arcp_client.acp import schema
from arcp_client.acp._connection.connection import AgentConnection
from arcp_client.acp._decode import Misshapen, decode
from arcp_client.acp.errors import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    UNSUPPORTED_VERSION,
    AgentRefused,
)
from arcp_client.errors import RemoteProtocolError

__all__ = ["VERSIONS", "AskedTwice", "negotiate", "usable_versions"]

VERSIONS = (1, 2)
"""The versions that this package speaks. Version 2 is a draft."""

# How agents refuse a version, or what another version calls its params.
_REFUSALS = (UNSUPPORTED_VERSION, INVALID_PARAMS, INVALID_REQUEST)


class AskedTwice(Exception):  # no error: the other version needs a link of its own
    """The agent refused a version, and then ``initialize`` of another version on the same link."""


def usable_versions(versions: Sequence[int]) -> tuple[int, ...]:
    """Check the versions that a client shall speak.

    Raises:
        TypeError: they are not numbers in a sequence.
        ValueError: there is none, one is repeated, or this package does not speak one.
    """
    an_instance("versions", versions, (tuple, list), "a tuple of versions")
    for version in versions:
        an_instance("one of versions", version, int, "a number")
    if not versions or len(set(versions)) < len(versions) or not set(versions) <= set(VERSIONS):
        raise ValueError(f"versions are among 1 and 2, each once, not {versions!r:.60}")
    return tuple(versions)


async def negotiate(
    connection: AgentConnection,
    request: schema.InitializeRequest,
    info: schema.Implementation,
    versions: Sequence[int],
    *,
    once: bool = False,
) -> None:
    """Initialize the agent, and set what it offers and its version on the connection.

    Args:
        connection: the connection.
        request: the params of ``initialize`` in version 1.
        info: name and version of this client.
        versions: the versions to speak; the first one is preferred.
        once: whether the link may be one that takes a single ``initialize``.

    Raises:
        AskedTwice: ``once`` is set, and the link took one ``initialize``, which was refused.
        RemoteProtocolError: the agent speaks none of the versions.
        AgentRefused: the agent refused for another reason.
        RequestTimeout: an answer took longer than `AcpLimits.start`.
    """
    refusal: AgentRefused | None = None
    answered: bytes | None = None
    for version in versions:
        try:
            answer = await _ask(connection, request, info, version, versions)
        except AgentRefused as error:
            if error.number not in _REFUSALS:
                raise
            if once and refusal is not None and error.number == INVALID_REQUEST:
                raise AskedTwice from error
            refusal = refusal or error
            continue
        number = _version_of(answer)
        if number == 1 and 1 in versions:
            connection.agent = _decoded(decode, schema.InitializeResponse, answer)
            return
        if number == 2 and version == 2:
            _speak_version2(connection, answer)
            return
        if not (number == 2 and 2 in versions):
            raise RemoteProtocolError(_mismatch(connection.name, [number], versions))
        answered = answer  # to a request of version 1: ask again in the agent's terms
    if answered is not None:
        _speak_version2(connection, answered)  # it refuses to be asked twice
        return
    assert refusal is not None
    if refusal.number == UNSUPPORTED_VERSION:
        supported = refusal.data.get("supported") if isinstance(refusal.data, dict) else None
        text = _mismatch(connection.name, supported, versions)
        raise RemoteProtocolError(text) from refusal
    raise refusal


async def _ask(
    connection: AgentConnection,
    request: schema.InitializeRequest,
    info: schema.Implementation,
    version: int,
    versions: Sequence[int],
) -> bytes:
    params: Any = request
    if version == 2:
        params = _module().initialize_request(request, info, both=1 in versions)
    limit = connection.limits.start
    return await connection.raw("initialize", params, timeout=limit, abandon=False)


def _version_of(answer: bytes) -> int:
    answered: schema.InitializeResponse = _decoded(decode, schema.InitializeResponse, answer)
    return answered.protocol_version


def _speak_version2(connection: AgentConnection, answer: bytes) -> None:
    version2 = _decoded(_module().AgentVersion2.of, answer, connection.name)
    connection.version2 = version2
    connection.agent = version2.agent()


def _decoded(read: Callable[..., Any], *args: Any) -> Any:
    try:
        return read(*args)
    except Misshapen as error:
        text = f"the result of initialize is invalid: {error}"
        raise RemoteProtocolError(text) from error


def _mismatch(name: str, theirs: Any, ours: Sequence[int]) -> str:
    said = theirs if isinstance(theirs, list) and theirs else ["unknown"]
    return (
        f"{name} speaks protocol version {_listed(said)}, and this client {_listed(ours)}:"
        " choose other versions, or use another release of the agent"
    )


def _listed(versions: Sequence[Any]) -> str:
    return " and ".join(f"{version!s:.20}" for version in versions[:8])


def _module() -> Any:
    """Import what only agents of version 2 need."""
    return importlib.import_module("arcp_client.acp._version2")
