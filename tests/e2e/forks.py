"""Starts commands as forks of an interpreter that has imported the command line.

Imports take most of a short command's time. The server imports once and forks for each command. The
new process has its own arguments, environment, directory and streams, and is a child of the tests.
What it cannot show is how an interpreter begins: ``/proc``, ``PYTHON…`` variables, closed streams.
"""

from __future__ import annotations

import array
import ctypes
import fcntl
import gc
import importlib
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pexpect
import ptyprocess

ROOT = Path(__file__).parents[2]
OBEYED = {"PYTHONPATH", "PYTHONWARNINGS", "PYTHON_KEYRING_BACKEND"}
"""Variables named like Python's own that a fork obeys."""
_ADOPT = 36  # PR_SET_CHILD_SUBREAPER
_SIZE = 1 << 20

_servers: dict[int, socket.socket] = {}


def possible(env: Mapping[str, str]) -> bool:
    """Whether a fork does with this environment what an interpreter would do."""
    python = {name for name in env if name.startswith("PYTHON")}
    return sys.platform == "linux" and python <= OBEYED and env.get("LANG") == "C.UTF-8"


# ------------------------------------------------------------------------- in the tests


def start(
    words: Sequence[str], env: Mapping[str, str], cwd: Any, fds: Sequence[int], *, tty: bool
) -> int:
    """Start ``arcp-client`` with these words; its process id, which is a child's of this process.

    Args:
        words: the arguments.
        env: all of its environment.
        cwd: its directory; ``None``: this one.
        fds: its standard input, output and error.
        tty: whether they are a terminal that it is to control.
    """
    server = _server()
    asked = {"words": words, "env": dict(env), "cwd": os.fspath(cwd or "."), "tty": tty}
    # The process between the server and the command ends at once: this one adopts the command.
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_ADOPT, 1, 0, 0, 0)
    try:
        asked["cwd"] = str(Path(asked["cwd"]).absolute())
        socket.send_fds(server, [json.dumps(asked).encode()], list(fds))
        pid = int(server.recv(_SIZE))
        assert server.recv(_SIZE) == b"adopted"
    finally:
        libc.prctl(_ADOPT, 0, 0, 0, 0)
    return pid


def _server() -> socket.socket:
    """The server of this process, started when it is first needed; it ends with this process."""
    if os.getpid() not in _servers:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        env = {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(ROOT),
            "PYTHONWARNINGS": "error",
        }
        with theirs:
            os.posix_spawn(
                sys.executable,
                [sys.executable, "-m", "tests.e2e.forks"],
                env,
                file_actions=[(os.POSIX_SPAWN_DUP2, theirs.fileno(), 0)],
            )
        _servers[os.getpid()] = ours
    return _servers[os.getpid()]


class Process(subprocess.Popen[str]):
    """A command; ``Popen([*COMMAND, *words], …)`` with texts, pipes or files."""

    def _execute_child(self, args: Any, *rest: Any) -> None:  # the order is that of 3.11 to 3.14
        cwd, env = rest[4], rest[5]
        ends = p2cread, _, _, c2pwrite, _, errwrite = rest[9:15]
        if env is None or not possible(env):
            super()._execute_child(args, *rest)  # type: ignore[misc]
            return
        fds = [own if fd == -1 else fd for own, fd in enumerate((p2cread, c2pwrite, errwrite))]
        try:
            self.pid = start(args[3:], env, cwd, fds, tty=False)
            self._child_created = True
        finally:
            self._close_pipe_fds(*ends)  # type: ignore[attr-defined]


class Spawn(pexpect.spawn):
    """A command in a pseudo-terminal."""

    def _spawnpty(self, args: list[bytes], **options: Any) -> ptyprocess.PtyProcess:
        env = options["env"]
        if not possible(env):
            return super()._spawnpty(args, **options)
        ours, theirs = os.openpty()
        rows, columns = options.get("dimensions") or (24, 80)
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, array.array("H", [rows, columns, 0, 0]))
        try:
            words = [word.decode() for word in args[3:]]
            pid = start(words, env, options["cwd"], [theirs] * 3, tty=True)
        finally:
            os.close(theirs)
        return ptyprocess.PtyProcess(pid, ours)


# ------------------------------------------------------------------------- in the server


def main() -> None:
    """Fork for each request on the socket that is standard input; return in the fork."""
    control = socket.socket(fileno=os.dup(0))
    import arcp_client.cli.actions as actions

    for module in pkgutil.iter_modules(actions.__path__, f"{actions.__name__}."):
        importlib.import_module(module.name)
    import coverage  # noqa: F401

    import arcp_client.cli.app
    import arcp_client.transports.websocket  # noqa: F401

    gc.collect()
    gc.freeze()
    while True:
        message, fds, *_ = socket.recv_fds(control, _SIZE, 3)
        if not message:
            os._exit(0)
        between = os.fork()
        if not between:
            if pid := os.fork():
                control.send(str(pid).encode())
                os._exit(0)
            control.close()
            become(json.loads(message), fds)
            return
        for fd in fds:
            os.close(fd)
        os.waitpid(between, 0)
        control.send(b"adopted")


def become(asked: dict[str, Any], fds: list[int]) -> None:
    """Be the process that was asked for."""
    if asked["tty"]:
        os.setsid()
        # As a terminal starts it; where the tests run as a background job, SIGINT is ignored.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        fcntl.ioctl(fds[0], termios.TIOCSCTTY, 0)
    for number, (fd, name) in enumerate(zip(fds, ("stdin", "stdout", "stderr"), strict=True)):
        os.dup2(fd, number)
        os.close(fd)
        old = getattr(sys, name)
        stream = open(  # noqa: SIM115
            number, old.mode, encoding=old.encoding, errors=old.errors, closefd=False,
            buffering=1 if name == "stderr" or os.isatty(number) else -1,
        )  # fmt: skip
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    more = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:1] = [asked["cwd"], *more]
    sys.argv[:] = ["arcp-client", *asked["words"]]
    import coverage

    coverage.process_startup()


if __name__ == "__main__":
    main()
    from arcp_client.cli import main as command

    command()
