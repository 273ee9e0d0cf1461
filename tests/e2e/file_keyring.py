"""A keyring in a file, for the processes of tests: ``PYTHON_KEYRING_BACKEND`` names it."""

from __future__ import annotations

import json
import os
from pathlib import Path

from keyring.backend import KeyringBackend


class FileKeyring(KeyringBackend):
    """Keeps what it is given in the file that ``TEST_KEYRING`` names."""

    priority = 1.0  # type: ignore[assignment]
    name = "a file"  # type: ignore[assignment]

    def _read(self) -> dict[str, str]:
        path = Path(os.environ["TEST_KEYRING"])
        found: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
        return found

    def get_password(self, service: str, username: str) -> str | None:
        return self._read().get(f"{service} {username}")

    def set_password(self, service: str, username: str, password: str) -> None:
        kept = {**self._read(), f"{service} {username}": password}
        Path(os.environ["TEST_KEYRING"]).write_text(json.dumps(kept))

    def delete_password(self, service: str, username: str) -> None:
        kept = self._read()
        del kept[f"{service} {username}"]
        Path(os.environ["TEST_KEYRING"]).write_text(json.dumps(kept))
