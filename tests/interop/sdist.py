"""The examples in the source distributions of two SDKs, each downloaded once."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

import pytest

PATIENCE = 200
"""Seconds that one download may take, and that a process waits for another's."""


@dataclass(frozen=True)
class Distribution:
    """A source distribution on the index.

    Attributes:
        name: the name of its archive, without the suffix.
        pin: its requirement with its hash.
        isolated: whether pip has to fetch what it is built with, to read its metadata.
    """

    name: str
    pin: str
    isolated: bool


REFERENCE = Distribution(
    "agentruntimecontrolprotocol-1.1.3",
    "agentruntimecontrolprotocol==1.1.3"
    " --hash=sha256:5f22bc46087a146d44eb59cffca2c71ba1339b5e306cc96a17fe2ab06c909ee7",
    isolated=False,  # by hatchling, which is installed
)
ACP = Distribution(
    "agent_client_protocol-0.12.1",
    "agent-client-protocol==0.12.1"
    " --hash=sha256:9963ccb590ed96d7dc542c9c023e90676fc76b1c6562e21a9ee112f4fbcb0095",
    isolated=True,
)


def examples(config: pytest.Config, into: Path, of: Distribution = REFERENCE) -> Path:
    """A copy of the examples in a folder of one's own. The archive is kept in pytest's cache."""
    assert config.cache is not None
    kept = config.cache.mkdir(of.name)
    archive = kept / f"{of.name}.tar.gz"
    with (kept / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run in several processes
        if not archive.exists():
            _download(kept, of)
    with tarfile.open(archive) as packed:
        if hasattr(tarfile, "data_filter"):  # 3.11.4
            packed.extractall(into, filter="data")
        else:
            packed.extractall(into)  # its hash is known
    return into / of.name / "examples"


def _download(folder: Path, of: Distribution) -> None:
    pin = folder / "pin.txt"
    pin.write_text(of.pin)
    package = of.pin.partition("==")[0]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--quiet"),
            *("--no-deps", "--no-binary", package, "--require-hashes"),
            *(() if of.isolated else ("--no-build-isolation",)),
            *("--dest", str(folder), "-r", str(pin)),
        ],
        capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=PATIENCE, check=False,
    )  # fmt: skip
    if done.returncode:
        message = f"cannot download the source distribution {of.name}: {done.stderr[-500:]}"
        if "CI" in os.environ:
            pytest.fail(message)
        pytest.skip(message)
