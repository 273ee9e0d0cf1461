"""What was submitted from here, in files of the user's own: so that it can be cancelled from here.

A runtime lets only the submitter cancel a job (§7.4). Another process proves to be it by saying the
same submit again, with the same idempotency key (§7.2), which starts nothing anew.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from pathlib import Path
from time import time
from typing import Any

import platformdirs

__all__ = ["forget", "recall", "remember"]

_KEPT = 7 * 86_400.0
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,120}")


def _directory() -> Path:
    return Path(platformdirs.user_state_dir("arcp-client")) / "jobs"


def _file(job_id: str) -> Path | None:
    # The id is the runtime's word: it must not lead anywhere else.
    return _directory() / f"{job_id}.json" if _NAME.fullmatch(job_id) else None


def remember(job_id: str, submit: dict[str, Any]) -> None:
    """Keep a submit's parameters, readable by the user alone."""
    path = _file(job_id)
    if path is None:
        return
    with contextlib.suppress(OSError):  # then it can be cancelled from its own terminal only
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _sweep(path.parent)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(submit, file)


def recall(job_id: str) -> dict[str, Any] | None:
    """What `remember` kept, if it did."""
    path = _file(job_id)
    if path is None:
        return None
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return kept if isinstance(kept, dict) else None


def forget(job_id: str) -> None:
    """The job has ended."""
    path = _file(job_id)
    if path is not None:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def _sweep(directory: Path) -> None:
    """Remove what nobody forgot: the ends of those jobs were not seen from here."""
    for path in directory.glob("*.json"):
        with contextlib.suppress(OSError):
            if time() - path.stat().st_mtime > _KEPT:
                path.unlink()
