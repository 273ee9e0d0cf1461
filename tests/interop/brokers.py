"""Servers of message brokers for tests: each function starts one and yields its address."""

from __future__ import annotations

import ctypes
import ctypes.util
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_PATIENCE = 20.0  # seconds for a server to listen


def _needs(program: str, package: str) -> str:
    found = shutil.which(program) or shutil.which(program, path="/usr/sbin")
    if found is None:
        pytest.skip(f"no {program}: on Debian, apt-get install {package}")
    return found


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def _served(command: list[str], port: int) -> Iterator[None]:
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as server:
        try:
            until = time.monotonic() + _PATIENCE
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                except OSError:
                    if server.poll() is not None or time.monotonic() > until:
                        raise
                time.sleep(0.02)  # between two attempts to connect to another process
            yield
        finally:
            server.terminate()
            server.communicate(timeout=_PATIENCE)


@contextmanager
def redis(folder: Path) -> Iterator[str]:
    """A Redis server without persistence."""
    program, port = _needs("redis-server", "redis-server"), _free_port()
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
    with _served([*command, "--dir", str(folder)], port):
        yield f"redis://127.0.0.1:{port}"


@contextmanager
def nats(folder: Path) -> Iterator[str]:
    """A NATS server with JetStream."""
    program, port = _needs("nats-server", "nats-server"), _free_port()
    with _served([program, "-js", "-sd", str(folder), "-a", "127.0.0.1", "-p", str(port)], port):
        yield f"nats://127.0.0.1:{port}"


@contextmanager
def kafka(_folder: Path) -> Iterator[str]:
    """The broker that librdkafka has for tests: Kafka's protocol on a socket, topics in memory."""
    name = ctypes.util.find_library("rdkafka")
    if name is None:
        pytest.skip("no librdkafka: on Debian, apt-get install librdkafka1")
    library = ctypes.CDLL(name)
    handle = ctypes.c_void_p
    library.rd_kafka_conf_new.restype = handle
    library.rd_kafka_conf_set.argtypes = [handle, *[ctypes.c_char_p] * 3, ctypes.c_size_t]
    library.rd_kafka_new.restype = handle
    library.rd_kafka_new.argtypes = [ctypes.c_int, handle, ctypes.c_char_p, ctypes.c_size_t]
    library.rd_kafka_destroy.argtypes = [handle]
    library.rd_kafka_mock_cluster_new.restype = handle
    library.rd_kafka_mock_cluster_new.argtypes = [handle, ctypes.c_int]
    library.rd_kafka_mock_cluster_destroy.argtypes = [handle]
    library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
    library.rd_kafka_mock_cluster_bootstraps.argtypes = [handle]
    library.rd_kafka_mock_topic_create.argtypes = [handle, ctypes.c_char_p, *[ctypes.c_int] * 2]
    config = library.rd_kafka_conf_new()
    library.rd_kafka_conf_set(config, b"log_level", b"0", None, 0)
    owner = library.rd_kafka_new(0, config, None, 0)
    cluster = library.rd_kafka_mock_cluster_new(owner, 1)
    try:
        assert library.rd_kafka_mock_topic_create(cluster, b"orders", 2, 1) == 0
        yield library.rd_kafka_mock_cluster_bootstraps(cluster).decode()
    finally:
        library.rd_kafka_mock_cluster_destroy(cluster)
        library.rd_kafka_destroy(owner)
