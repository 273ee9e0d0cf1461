"""Starts Python programs as forks of an interpreter that has imported the package.

Imports take most of a short program's time. The server imports once and forks for each program. The
new process has its own arguments, environment, directory and streams, and is a child of the tests.
What it cannot show is how an interpreter begins: ``/proc``, which modules a program imports, how
much memory it takes, and at its end, what imported modules hold.

`Process` and `Spawn` start forks instead of interpreters, and so does all that a module starts that
asks for the fixture ``forked``.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import ctypes
import fcntl
import gc
import importlib
import importlib.util
import inspect
import io
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import termios
import threading
import types
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pexpect
import ptyprocess

ROOT = Path(__file__).parents[1]
OBEYED = {
    *("PYTHONPATH", "PYTHONWARNINGS", "PYTHON_KEYRING_BACKEND", "PYTHONIOENCODING"),
    *("PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE"),
}
"""Variables named like Python's own that a fork obeys."""
READ_BY_IMPORTS = {"SSL_CERT_FILE", "SSL_CERT_DIR"}
"""Variables that are read by imports: a fork has them from the process of the tests."""
ADOPTED = b"adopted"
IMPORTED = b"imported"
_ADOPT = 36  # PR_SET_CHILD_SUBREAPER
_SIZE = 1 << 20

_servers: dict[int, socket.socket] = {}
_ended: list[int] = []
_one_at_a_time = threading.Lock()


def possible(command: Sequence[str], env: Mapping[str, str]) -> bool:
    """Whether a fork does with this command and environment what an interpreter would do."""
    python = {name for name in env if name.startswith("PYTHON")}
    paths = [path for path in env.get("PYTHONPATH", "").split(os.pathsep) if path]
    return (
        sys.platform == "linux"
        and command[0] == sys.executable
        and _program(command) is not None
        and python <= OBEYED
        and all(os.environ.get(name) == env[name] for name in READ_BY_IMPORTS & env.keys())
        and all(Path(path).is_relative_to(ROOT) for path in paths)  # others hide what is imported
        and _locale(env) in {"C", "POSIX", "C.UTF-8"}
    )


def _locale(env: Mapping[str, str]) -> str:
    return env.get("LC_ALL") or env.get("LC_CTYPE") or env.get("LANG") or "C"


def _program(command: Sequence[str]) -> list[str] | None:
    """What comes behind the options of the interpreter: ``-m`` and a module, or a file."""
    words = command[_options(command) :]
    return list(words) if words and (words[0] == "-m" or words[0].endswith(".py")) else None


def _options(command: Sequence[str]) -> int:
    """Where the options of the interpreter end: of ``-u`` and ``-W``."""
    end = 1
    while command[end : end + 1] in (["-u"], ["-W"]):
        end += 1 if command[end] == "-u" else 2
    return end


# ------------------------------------------------------------------------- in the tests


def start(
    command: Sequence[str],
    env: Mapping[str, str],
    cwd: Any,
    fds: Sequence[int],
    *,
    tty: bool = False,
    session: bool = False,
    closed: Sequence[int] = (),
) -> int:
    """Start a program; its process id, which is a child's of this process.

    Args:
        command: the interpreter, its options and the program with its arguments.
        env: all of its environment.
        cwd: its directory; ``None``: this one.
        fds: its standard input, output and error.
        tty: whether they are a terminal that it is to control.
        session: whether it leads a session of its own.
        closed: the standard streams that are closed when it begins, by number.
    """
    asked = {
        "command": list(command),
        "env": dict(env),
        "cwd": str(Path(os.fsdecode(cwd or ".")).absolute()),
        "tty": tty,
        "session": session or tty,
        "closed": list(closed),
    }
    # The process between the server and the program ends at once: this one adopts the program.
    libc = ctypes.CDLL(None, use_errno=True)
    with _one_at_a_time:
        server = _server()
        libc.prctl(_ADOPT, 1, 0, 0, 0)
        try:
            socket.send_fds(server, [json.dumps(asked).encode()], list(fds))
            told = {server.recv(_SIZE), server.recv(_SIZE)}
            assert ADOPTED in told
        finally:
            libc.prctl(_ADOPT, 0, 0, 0, 0)
    [pid] = told - {ADOPTED}
    return int(pid)


def prepare(*modules: str) -> None:
    """Import modules before the programs of this process's tests that begin from now on.

    For libraries whose import takes much of the time of several programs.
    """
    with _one_at_a_time:
        server = _server()
        server.send(json.dumps({"import": modules}).encode())
        told = server.recv(_SIZE)
        assert told == IMPORTED


def _server() -> socket.socket:
    """The server of this process, started when it is first needed; it ends with this process."""
    if os.getpid() not in _servers:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        env = {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(ROOT),
            "PYTHONWARNINGS": "error",
            **{name: os.environ[name] for name in READ_BY_IMPORTS & os.environ.keys()},
        }
        with theirs:
            os.posix_spawn(
                sys.executable,
                [sys.executable, "-m", "tests.forks"],
                env,
                file_actions=[(os.POSIX_SPAWN_DUP2, theirs.fileno(), 0)],
            )
        _servers[os.getpid()] = ours
        atexit.register(ours.close)
    return _servers[os.getpid()]


_interpreter: Any = subprocess.Popen._execute_child  # type: ignore[attr-defined]
_SIGNATURE = inspect.signature(_interpreter)
_PLAIN = {  # the arguments of which a fork does nothing
    "executable": None, "preexec_fn": None, "pass_fds": (), "shell": False, "gid": None,
    "gids": None, "uid": None, "umask": -1, "process_group": -1,
}  # fmt: skip
_ENDS = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")


def execute_child(self: subprocess.Popen[Any], *given: Any) -> None:
    """Fork instead of starting an interpreter, where that is possible."""
    asked = _SIGNATURE.bind(self, *given).arguments
    args = asked["args"]
    words = [args] if isinstance(args, str | bytes | os.PathLike) else list(args)
    command = [os.fsdecode(word) for word in words]
    env = os.environ if asked["env"] is None else asked["env"]
    plain = all(asked[name] == value for name, value in _PLAIN.items())
    if not plain or not possible(command, env):
        _interpreter(self, *given)
        return
    fds = [
        own if asked[name] == -1 else asked[name]
        for own, name in enumerate(("p2cread", "c2pwrite", "errwrite"))
    ]
    session = asked["start_new_session"]
    closed = getattr(self, "closed", ())
    try:
        self.pid = start(command, env, asked["cwd"], fds, session=session, closed=closed)
        self._child_created = True
    finally:
        self._close_pipe_fds(*(asked[name] for name in _ENDS))  # type: ignore[attr-defined]


class Process(subprocess.Popen[str]):
    """A command; ``Popen([*COMMAND, *words], …)`` with texts, pipes or files.

    Attributes:
        closed: the standard streams that are closed when it begins, by number.
    """

    closed: Sequence[int] = ()
    _execute_child = execute_child


class Spawn(pexpect.spawn):
    """A command in a pseudo-terminal."""

    def _spawnpty(self, args: list[bytes], **options: Any) -> ptyprocess.PtyProcess:
        env = options["env"]
        command = [word.decode() for word in args]
        if not possible(command, env):
            return super()._spawnpty(args, **options)
        ours, theirs = os.openpty()
        rows, columns = options.get("dimensions") or (24, 80)
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, array.array("H", [rows, columns, 0, 0]))
        try:
            pid = start(command, env, options["cwd"], [theirs] * 3, tty=True)
        finally:
            os.close(theirs)
        return ptyprocess.PtyProcess(pid, ours)


# ------------------------------------------------------------------------- in the server


def main() -> tuple[types.ModuleType, Any]:
    """Fork for each request on the socket that is standard input.

    Returns:
        In the fork, the module to be ``__main__`` and its code.
    """
    control = socket.socket(fileno=os.dup(0))
    atexit.register(leave)  # before all others, so after all others
    import_what_programs_import()
    gc.collect()
    gc.freeze()
    while True:
        message, fds, *_ = socket.recv_fds(control, _SIZE, 3)
        if not message:
            os._exit(0)
        if not fds:
            with warnings.catch_warnings(action="ignore"):  # other libraries are not examined
                for name in json.loads(message)["import"]:
                    importlib.import_module(name)
            gc.collect()
            gc.freeze()
            control.send(IMPORTED)
            continue
        between = os.fork()
        if not between:
            if os.fork():
                os._exit(0)
            asked = json.loads(message)
            if asked["session"]:
                os.setsid()  # before the tests can send a signal to its group
            control.send(str(os.getpid()).encode())
            control.close()
            become(asked, fds)
            return program(asked)
        for fd in fds:
            os.close(fd)
        os.waitpid(between, 0)
        control.send(ADOPTED)


def import_what_programs_import() -> None:
    """Import the package with all that its names and commands import when they are first used."""
    import coverage  # noqa: F401

    import arcp_client
    import arcp_client.cli.actions as actions
    import arcp_client.cli.app
    import arcp_client.runtime
    import arcp_client.transports.websocket
    from arcp_client.cli.exit_codes import CommandError

    for module in (arcp_client, arcp_client.runtime):
        for name in module.__all__:
            getattr(module, name)
    for found in pkgutil.iter_modules(actions.__path__, f"{actions.__name__}."):
        with contextlib.suppress(CommandError):  # its extra is not installed
            importlib.import_module(found.name)


def become(asked: dict[str, Any], fds: list[int]) -> None:
    """Be the process that was asked for."""
    if asked["tty"]:
        # As a terminal starts it; where the tests run as a background job, SIGINT is ignored.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        fcntl.ioctl(fds[0], termios.TIOCSCTTY, 0)
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    if _locale(os.environ) in ("C", "POSIX") and not os.environ.get("LC_ALL"):
        os.environ["LC_CTYPE"] = "C.UTF-8"  # as an interpreter does
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    options = asked["command"][1 : _options(asked["command"])]
    filter_warnings([word for word in options if not word.startswith("-")])
    unbuffered = "-u" in options or bool(os.environ.get("PYTHONUNBUFFERED"))
    for number, (fd, name) in enumerate(zip(fds, ("stdin", "stdout", "stderr"), strict=True)):
        if number in asked["closed"]:
            os.close(fd)
            os.close(number)
            stream = None
        else:
            os.dup2(fd, number)
            os.close(fd)
            stream = standard_stream(number, getattr(sys, name), unbuffered)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    import coverage

    coverage.process_startup()


def filter_warnings(options: list[str]) -> None:
    """Set the filters that a new interpreter would have with these options ``-W``."""
    variable = os.environ.get("PYTHONWARNINGS", "")
    sys.warnoptions[:] = [*(word for word in variable.split(",") if word), *options]
    warnings.resetwarnings()
    for category in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
        warnings.simplefilter("ignore", category)
    warnings.filterwarnings("default", category=DeprecationWarning, module="__main__")
    warnings._processoptions(sys.warnoptions)  # type: ignore[attr-defined]


def standard_stream(number: int, old: io.TextIOWrapper, unbuffered: bool) -> io.TextIOWrapper:
    """The stream that a new interpreter would have."""
    encoding, _, errors = os.environ.get("PYTHONIOENCODING", "").partition(":")
    if number == 2:
        errors = "backslashreplace"
    file = open(number, f"{old.mode}b", 0 if unbuffered and number else -1, closefd=False)  # noqa: SIM115
    stream = io.TextIOWrapper(
        file, encoding or old.encoding, errors or ("strict" if encoding else old.errors),
        line_buffering=not unbuffered and (number == 2 or os.isatty(number)),
        write_through=unbuffered,
    )  # fmt: skip
    vars(stream)["mode"] = old.mode
    return stream


def program(asked: dict[str, Any]) -> tuple[types.ModuleType, Any]:
    """The program as the module ``__main__``, with its code."""
    words = _program(asked["command"])
    assert words is not None
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    module = types.ModuleType("__main__")
    if words[0] == "-m":
        sys.path[:2] = [asked["cwd"], *paths]  # instead of the server's directory and PYTHONPATH
        spec = importlib.util.find_spec(words[1])
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{words[1]}.__main__")
        assert spec is not None, words
        assert spec.origin is not None, words
        module.__spec__, module.__package__, module.__file__ = spec, spec.parent, spec.origin
        code = spec.loader.get_code(spec.name)  # type: ignore[union-attr]
        sys.argv[:] = [spec.origin, *words[2:]]
    else:
        path = Path(words[0]).absolute()
        sys.path[:2] = [str(path.parent), *paths]
        module.__file__ = str(path)
        code = compile(path.read_bytes(), path, "exec", dont_inherit=True)
        sys.argv[:] = words
    return module, code


def run(module: types.ModuleType, code: Any) -> None:
    """Run the program, and note its exit code if it ends in the usual way."""
    sys.modules["__main__"] = module
    try:
        exec(code, vars(module))
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            _ended.append((error.code or 0) & 0xFF)
        raise
    _ended.append(0)


def leave() -> None:
    """End without the destruction of all modules: most pages of the server would be copied for it.

    What the program itself holds is destroyed, and complains if it was not closed.
    """
    if not _ended:
        return
    vars(sys.modules["__main__"]).clear()
    gc.collect()
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except (OSError, ValueError):
        return  # the interpreter reports it
    os._exit(_ended[0])


if __name__ == "__main__":
    run(*main())
