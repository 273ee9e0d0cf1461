"""The reference SDK's source distribution, downloaded once in; the folder of its examples out."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

PATIENCE = 200
"""Seconds that one download may take, and that a process waits for another's."""

_NAME = "agentruntimecontrolprotocol-1.1.3"
_PIN = (
    "agentruntimecontrolprotocol==1.1.3"
    " --hash=sha256:5f22bc46087a146d44eb59cffca2c71ba1339b5e306cc96a17fe2ab06c909ee7"
)


def examples(config: pytest.Config, into: Path) -> Path:
    """A copy of the examples in a folder of one's own. The archive is kept in pytest's cache."""
    assert config.cache is not None
    kept = config.cache.mkdir("reference-sdist")
    archive = kept / f"{_NAME}.tar.gz"
    with (kept / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run in several processes
        if not archive.exists():
            _download(kept)
    with tarfile.open(archive) as packed:
        if hasattr(tarfile, "data_filter"):  # 3.11.4
            packed.extractall(into, filter="data")
        else:
            packed.extractall(into)  # its hash is known
    return into / _NAME / "examples"


def _download(folder: Path) -> None:
    pin = folder / "pin.txt"
    pin.write_text(_PIN)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--quiet"),
            *("--no-deps", "--no-binary", ":all:", "--require-hashes"),
            "--no-build-isolation",  # pip reads its metadata by hatchling, which is installed
            *("--dest", str(folder), "-r", str(pin)),
        ],
        capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=PATIENCE, check=False,
    )  # fmt: skip
    if done.returncode:
        message = f"cannot download the reference SDK's source distribution: {done.stderr[-500:]}"
        if "CI" in os.environ:
            pytest.fail(message)
        pytest.skip(message)
