"""Declares ``arcp-client login``, which stores a token in the keyring."""

from __future__ import annotations

from arcp_client.cli.options import ConnectionOptions


def login(*, at: ConnectionOptions) -> int:
    """Store a runtime's token in the keyring (extra keyring).

    Type the token at the prompt, without echo, or pipe it to stdin. The command tries the token
    with the runtime before it stores the token.
    """
    from arcp_client.cli.actions import login as action

    return action.login(at)
