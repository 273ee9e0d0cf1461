"""Makes the webhooks of ``serve`` from its options; secrets come from files or a variable."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from arcp_client.cli.environment import file_text, variable
from arcp_client.cli.exit_codes import CommandError, Exit
from arcp_client.runtime import Webhook

__all__ = ["webhooks_of"]

_VARIABLE = "ARCP_WEBHOOK_SECRET"


def webhooks_of(
    urls: Sequence[str], files: Sequence[Path], events: Sequence[str], *, allow_http: bool
) -> list[Webhook]:
    """Return the webhooks.

    Args:
        urls: the URLs.
        files: files with secrets: none, one for all URLs, or one for each.
        events: what to call for; all kinds if empty.
        allow_http: whether ``http://`` is allowed to other machines.

    Raises:
        CommandError: an option is invalid. The message shows neither secrets nor URLs.
    """
    if not urls:
        if files or events or allow_http:
            raise CommandError(Exit.USAGE, "options of webhooks need a --webhook URL")
        return []
    if len(files) > 1 and len(files) != len(urls):
        raise CommandError(
            Exit.USAGE,
            f"{len(urls)} webhooks have {len(files)} files with secrets",
            "give one --webhook-secret for all, or one for each --webhook in their order",
        )
    secrets = [_read(path) for path in files] or [_variable()]
    if len(secrets) == 1:
        secrets *= len(urls)
    kinds: dict[str, Any] = {"events": events} if events else {}
    try:
        made = [
            Webhook(url, secret=secret, allow_http=allow_http, **kinds)
            for url, secret in zip(urls, secrets, strict=True)
        ]
    except ValueError as error:
        hint = "--webhook-http accepts http://" if "allow_http" in str(error) else ""
        text = str(error).replace("; allow_http=True accepts this", "")
        raise CommandError(Exit.USAGE, text, hint) from None
    if len({webhook.key for webhook in made}) < len(made):
        raise CommandError(Exit.USAGE, "the same URL is given by --webhook twice")
    return made


def _variable() -> list[str]:
    text = variable(_VARIABLE)
    if text is None:
        raise CommandError(
            Exit.USAGE,
            "webhooks need a secret, which signs the calls",
            f"set {_VARIABLE}, or give --webhook-secret FILE;"
            " echo whsec_$(openssl rand -base64 32) makes one",
        )
    return text.split()


def _read(path: Path) -> list[str]:
    what = f"the file {path} with the secret of webhooks"
    found = file_text(path, what).split()
    if not found:
        raise CommandError(Exit.USAGE, f"{what} is empty")
    return found
