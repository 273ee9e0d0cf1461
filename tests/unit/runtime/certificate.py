"""Makes a certificate for this machine when a test needs it."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

__all__ = ["self_signed", "server_context", "trusting"]


def self_signed(directory: Path, *, names: str = "DNS:localhost,IP:127.0.0.1") -> tuple[Path, Path]:
    """Certificate and key for some names."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("needs the openssl command to make a certificate")
    certificate, key = directory / "cert.pem", directory / "key.pem"
    subprocess.run(
        [
            openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
            "-nodes", "-days", "2", "-subj", "/CN=localhost", "-keyout", key, "-out", certificate,
            "-addext", f"subjectAltName={names}",
        ],
        check=True, capture_output=True, timeout=30,
    )  # fmt: skip
    return certificate, key


def server_context(directory: Path, **options: str) -> ssl.SSLContext:
    """What a server needs."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*self_signed(directory, **options))
    return context


def trusting(directory: Path) -> ssl.SSLContext:
    """What a client needs to trust it."""
    return ssl.create_default_context(cafile=str(directory / "cert.pem"))
