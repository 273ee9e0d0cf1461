"""Declares ``arcp-client logout``, which removes a token from the keyring."""

from __future__ import annotations

from arcp_client.cli.options import ProfileOption, UrlOption


def logout(*, url: UrlOption = None, profile: ProfileOption = None) -> int:
    """Remove a runtime's token from the keyring."""
    from arcp_client.cli.actions import login as action

    return action.logout(url=url, profile=profile)
