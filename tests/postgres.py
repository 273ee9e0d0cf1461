"""A PostgreSQL server for tests: on a free port of 127.0.0.1, without root."""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

__all__ = ["PASSWORD", "Cluster", "binaries"]

PASSWORD = "postgres-of-the-tests"
USER = "arcp"
MEMORY = Path("/dev/shm")
ROOM = 1 << 30


def binaries() -> Path:
    """The folder of the newest PostgreSQL >= 14 of this machine."""
    found = [
        (int(folder.parent.name), folder)
        for folder in Path("/usr/lib/postgresql").glob("*/bin")
        if (folder / "initdb").exists() and re.fullmatch(r"[0-9]+", folder.parent.name)
    ]
    on_path = shutil.which("initdb")
    if on_path is not None:
        found.append((0, Path(on_path).parent))
    assert found, "PostgreSQL is not installed: apt-get install postgresql, or `make test` as root"
    return max(found)[1]


def free_port() -> int:
    """A port of 127.0.0.1 that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _own(folder: Path) -> Path:
    """Give the folder to the server's user; the server does not run as root."""
    if os.getuid() == 0:
        user = pwd.getpwnam("postgres")
        os.chown(folder, user.pw_uid, user.pw_gid)
    return folder


@functools.cache
def _template() -> Path:
    """A folder with a data directory that others are copies of: initdb takes most of a second."""
    made = Cluster(Cluster.make_folder())
    atexit.register(made.remove)
    secret = made.folder / "password"
    secret.write_text(PASSWORD)
    secret.chmod(0o644)
    made.run(
        "initdb", "-N", "-D", made.data, "-U", USER, "-A", "scram-sha-256", f"--pwfile={secret}"
    )
    return made.folder


class Cluster:
    """One server with a data directory of its own.

    Args:
        folder: the directory for all files; made with `Cluster.folder` so that the server's user
            may enter it.
        settings: lines for postgresql.conf.
    """

    def __init__(self, folder: Path, settings: Sequence[str] = ()) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.port = free_port()
        self._settings = settings
        self._bin = binaries()

    @staticmethod
    def make_folder(*, on_disk: bool = False) -> Path:
        """A new directory that belongs to the server's user, in memory if there is room.

        Args:
            on_disk: always on the disk, for measurements.
        """
        with contextlib.suppress(OSError):
            if not on_disk and shutil.disk_usage(MEMORY).free > ROOM:
                folder = Path(tempfile.mkdtemp(prefix="arcp-pg-", dir=MEMORY))
                return _own(folder)
        return _own(Path(tempfile.mkdtemp(prefix="arcp-pg-")))

    @property
    def dsn(self) -> str:
        """The URL of the database, with its password."""
        return f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{self.port}/postgres"

    def run(self, *command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run one of PostgreSQL's programs as the server's user."""
        options = {"user": "postgres", "group": "postgres"} if os.getuid() == 0 else {}
        done = subprocess.run(
            [str(self._bin / str(command[0])), *map(str, command[1:])],
            capture_output=True,
            text=True,
            cwd=self.folder,
            timeout=60,
            check=False,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", **environment},
            **options,  # type: ignore[call-overload]
        )
        assert done.returncode == 0, done.stderr or done.stdout
        return done

    def create(self) -> Cluster:
        """Make the data directory and start the server."""
        copied = ["cp", "-a", _template() / "data", self.data]
        subprocess.run(copied, check=True, timeout=60)
        lines = [
            "listen_addresses = '127.0.0.1'",
            "unix_socket_directories = ''",
            "max_connections = 100",
            "shared_buffers = 32MB",
            "wal_level = replica",
            "dynamic_shared_memory_type = mmap",  # in the data directory: a killed server leaves it
            "fsync = off",  # kill -9 loses nothing without it; a loss of power would
            *self._settings,
        ]
        self.configure(*lines)
        self.start()
        return self

    def standby(self, name: str = "standby") -> Cluster:
        """Copy this server by pg_basebackup, and start the copy as a streaming standby.

        Args:
            name: the name by which ``synchronous_standby_names`` means it.
        """
        other = Cluster(self.make_folder())
        other.run(
            "pg_basebackup",
            "--no-sync",  # as initdb -N: to write 40 MB to the disk takes seconds, and twice
            "-D",
            other.data,
            "-R",
            "-X",
            "stream",
            "-c",
            "fast",
            "-d",
            f"{self.dsn}?application_name={name}",
        )
        other.configure(f"cluster_name = '{name}'", "synchronous_standby_names = ''")
        other.start()
        return other

    def configure(self, *lines: str) -> None:
        """Append settings, which count from the next start or `reload` on."""
        with (self.data / "postgresql.conf").open("a") as file:
            file.write("\n".join(["", *lines, ""]))

    def reload(self) -> None:
        """Apply changed settings."""
        self.run("pg_ctl", "-D", self.data, "reload")

    def start(self) -> None:
        """Start the server and wait until it accepts connections."""
        log = self.folder / "server.log"
        self.run(
            "pg_ctl", "-D", self.data, "-w", "-t", "50", "-l", log, "-o", f"-p {self.port}", "start"
        )

    def stop(self, mode: str = "fast") -> None:
        """Stop the server: its connections are cut."""
        self.run("pg_ctl", "-D", self.data, "-W", "-m", mode, "stop")
        self._wait_until_gone()

    def _wait_until_gone(self) -> None:
        # Not by pg_ctl: it waits for the process, which may remain a zombie in a container.
        deadline = time.monotonic() + 30
        while (self.data / "postmaster.pid").exists() and time.monotonic() < deadline:
            time.sleep(0.02)

    def kill(self) -> None:
        """Kill the server, as kill -9 does; its other processes end by themselves."""
        file = self.data / "postmaster.pid"
        os.kill(int(file.read_text().splitlines()[0]), signal.SIGKILL)
        file.unlink()

    def promote(self) -> None:
        """Make a standby the primary."""
        self.run("pg_ctl", "-D", self.data, "-w", "promote")

    def remove(self) -> None:
        """End the server and delete its files."""
        if (self.data / "postmaster.pid").exists():
            self.stop("immediate")
        shutil.rmtree(self.folder, ignore_errors=True)
