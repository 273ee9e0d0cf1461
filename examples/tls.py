"""Serve a runtime over TLS, and connect a client that trusts its certificate."""

import asyncio
import ssl
import subprocess
import tempfile
from pathlib import Path

from arcp_client import Client, JobContext, Runtime, WebSocketConnector, errors

runtime = Runtime(auth={"secret": "ada"})


@runtime.agent("hello")
async def hello(input: None, job: JobContext) -> str:
    return "hello over TLS"


def self_signed(folder: Path) -> tuple[Path, Path]:
    """A certificate for tests; a real one comes from a certificate authority."""
    certificate, key = folder / "cert.pem", folder / "key.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost"
    names = ["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command.split(), *names, *files], check=True, capture_output=True)
    return certificate, key


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        certificate, key = self_signed(Path(folder))
        server_side = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        server_side.load_cert_chain(certificate, key)
        client_side = ssl.create_default_context(cafile=str(certificate))

        async with runtime, runtime.serve("127.0.0.1", 0, ssl=server_side) as server:
            print(server.url.split(":")[0])
            connector = WebSocketConnector(server.url, ssl=client_side)
            async with Client(connector, token="secret") as client:
                job = await client.submit("hello")
                print((await job.result()).value)
            try:
                async with Client(server.url, token="secret"):
                    pass
            except errors.ConnectFailed:
                print("a client that does not trust the certificate sends no token")


asyncio.run(main())
