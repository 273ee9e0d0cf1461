"""Merges options, ``ARCP_*`` variables and settings files into the settings of a command.

Order of precedence: options, environment, ``./arcp.toml``, the user's file, defaults. The token is
never shown.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import SecretStr

from arcp_client._hosts import is_loopback
from arcp_client.cli import keys
from arcp_client.cli.environment import tidy, variable
from arcp_client.cli.exit_codes import CommandError, Exit
from arcp_client.cli.output_format import Output
from arcp_client.cli.settings_files import LOCAL, settings_files
from arcp_client.cli.tokens import read_token, to_token

__all__ = ["Setting", "Settled", "settle"]

DEFAULT_URL = "ws://127.0.0.1:7777/arcp"
_KEYRING = "keyring"
_KNOWN = frozenset({"url", "output", "token_file"})


@dataclass(frozen=True, slots=True)
class Setting:
    """A value and its origin."""

    value: str
    origin: str


@dataclass(frozen=True, slots=True)
class Settled:
    """The settings of a command."""

    profile: Setting
    url: Setting
    output: Setting
    token_from: Setting | None
    """``value`` is a file's path, or empty for the environment and for the keyring."""

    def token(self) -> SecretStr | None:
        """Return the bearer token, if there is one.

        Raises:
            CommandError: the token's file cannot be used, or `check_host` refuses.
        """
        if self.token_from is None:
            return None
        if self.token_from.origin == _KEYRING:
            return keys.fetch(self.url.value)  # the keyring entry is for this URL
        self.check_host()
        if self.token_from.value:
            return read_token(Path(self.token_from.value))
        return to_token(os.environ["ARCP_TOKEN"], "ARCP_TOKEN")

    def check_host(self) -> None:
        """Refuse to send a token to a host that only ``./arcp.toml`` names.

        Raises:
            CommandError: the URL comes from ``./arcp.toml``. Otherwise a downloaded directory could
                collect tokens.
        """
        host = urlsplit(self.url.value).hostname or ""
        if self.url.origin == LOCAL and not is_loopback(host):
            raise CommandError(
                Exit.USAGE,
                f"{LOCAL} names {host}, and a token would be sent there",
                "if that is intended, confirm it with --url or ARCP_URL",
            )


def settle(
    *,
    url: str | None = None,
    token_file: Path | None = None,
    profile: str | None = None,
    output: Output | None = None,
) -> Settled:
    """Merge options with the environment and the settings files.

    Raises:
        CommandError: a settings file or a variable cannot be used.
    """
    (local, _), (user, user_file) = settings_files()
    if profile is not None:
        chosen = Setting(profile, "--profile")
    elif value := variable("ARCP_PROFILE"):
        chosen = Setting(value, "ARCP_PROFILE")
    else:
        chosen = Setting("default", "default")
    layers = [
        (_section(local, chosen, LOCAL), LOCAL),
        (_section(user, chosen, user_file), user_file),
    ]
    known = any(chosen.value in file.get("profiles", {}) for file in (local, user))
    if chosen.origin != "default" and not known:
        raise CommandError(
            Exit.USAGE,
            f"the profile {chosen.value!r} does not exist",
            f"profiles are tables [profiles.NAME] in {LOCAL} or {user_file}",
        )

    def find(name: str, flag: str | None, default: str) -> Setting:
        if flag is not None:
            return Setting(tidy(flag), f"--{name}")
        if found := variable(f"ARCP_{name.upper()}"):
            return Setting(found, f"ARCP_{name.upper()}")
        for section, origin in layers:
            if name in section:
                return Setting(tidy(section[name]), origin)
        return Setting(default, "default")

    runtime = find("url", url, DEFAULT_URL)
    settled = Settled(
        profile=chosen,
        url=runtime,
        output=find("output", output.value if output is not None else None, Output.TEXT.value),
        token_from=_token_from(token_file, layers[1][0], user_file, runtime.value),
    )
    if settled.output.value not in tuple(Output):
        raise CommandError(
            Exit.USAGE,
            f"{settled.output.origin}: output is {', '.join(Output)}, not {settled.output.value!r}",
        )
    return settled


def _token_from(
    flag: Path | None, user: Mapping[str, Any], origin: str, url: str
) -> Setting | None:
    # Never from ./arcp.toml: it could name any of the user's files, which would then be sent.
    if flag is not None:
        return Setting(str(flag), "--token-file")
    if os.environ.get("ARCP_TOKEN"):
        return Setting("", "ARCP_TOKEN")
    if path := variable("ARCP_TOKEN_FILE"):
        return Setting(path, "ARCP_TOKEN_FILE")
    if "token_file" in user:
        return Setting(tidy(user["token_file"]), origin)
    return Setting("", _KEYRING) if keys.known(url) else None


def _section(file: Mapping[str, Any], profile: Setting, name: str) -> Mapping[str, Any]:
    """Merge a file's top level with the table of the chosen profile."""
    profiles = file.get("profiles", {})
    own = profiles.get(profile.value, {}) if isinstance(profiles, dict) else None
    if not isinstance(own, dict):
        raise CommandError(Exit.USAGE, f"{name}: [profiles.{profile.value}] must be a table")
    top = {key: value for key, value in file.items() if key != "profiles"}
    for key, value in {**top, **own}.items():
        if key not in _KNOWN or not isinstance(value, str):
            raise CommandError(
                Exit.USAGE,
                f"{name}: unknown setting {key}",
                f"settings: {', '.join(sorted(_KNOWN))}",
            )
        if key == "token_file" and name == LOCAL:
            raise CommandError(Exit.USAGE, f"{name}: token_file is valid only in the user's file")
    return {**top, **own}
