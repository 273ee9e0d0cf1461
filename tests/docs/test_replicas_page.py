"""The files of the page on replicas: options that the command has, and proxies that fit them."""

from __future__ import annotations

import configparser
import inspect
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from arcp_client.cli.commands.serve import serve

FILES = Path(__file__).parents[2] / "examples" / "replicas"


def test_the_unit_starts_the_command_with_its_options() -> None:
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(FILES / "arcp@.service")
    _, command, *options = shlex.split(unit["Service"]["ExecStart"])
    assert command == "serve"
    known = {f"--{name.replace('_', '-')}" for name in inspect.signature(serve).parameters}
    assert {option for option in options if option.startswith("--")} <= known
    module, attribute = options[options.index("--agents") + 1].split(":")
    agents = (FILES.parent / "deploy" / f"{module}.py").read_text()
    assert f"def {attribute}(auth" in agents
    grace = float(options[options.index("--grace") + 1])
    assert float(unit["Service"]["TimeoutStopSec"]) > grace


Block = dict[str, "list[tuple[list[str], Block | None]]"]


def parsed(text: str) -> Block:
    """A configuration of words, ended by ``;`` or a new line, and blocks in braces."""
    ends = ";" if ";" in text else "\n"
    words = re.findall(rf"[{{}}{ends}]|[^\s{{}};]+", re.sub(r"#.*", "", text))

    def block(at: int) -> tuple[Block, int]:
        found: Block = {}
        statement: list[str] = []
        while at < len(words):
            word = words[at]
            at += 1
            if word == "}":
                assert not statement or ends == "\n", f"{statement} is not ended"
                break
            if word == "{":
                inner, at = block(at)
                found.setdefault(statement[0], []).append((statement[1:], inner))
                statement = []
            elif word == ends:
                if statement:
                    found.setdefault(statement[0], []).append((statement[1:], None))
                statement = []
            else:
                statement.append(word)
        else:
            assert not statement, f"{statement} is not ended"
        return found, at

    assert text.count("{") == text.count("}")
    return block(0)[0]


def test_the_proxies_speak_tls_with_the_replicas_as_the_unit_serves_it() -> None:
    assert "--tls-cert" in (FILES / "arcp@.service").read_text()
    conf = parsed((FILES / "nginx.conf").read_text())
    location = conf["server"][0][1]["location"][0][1]  # type: ignore[index]
    assert location is not None
    assert location["proxy_pass"] == [(["https://arcp"], None)]
    assert location["proxy_ssl_verify"] == [(["on"], None)]
    [(name, _)] = location["proxy_ssl_name"]
    [(authority, _)] = location["proxy_ssl_trusted_certificate"]
    proxy = parsed((FILES / "Caddyfile").read_text())["agents.example.org"][0][1]
    [(words, options)] = proxy["reverse_proxy"]  # type: ignore[index]
    assert all(word.startswith("https://") for word in words[1:])
    transport = options["transport"][0][1]  # type: ignore[index]
    assert transport is not None
    assert transport["tls_server_name"] == [(name, None)]
    assert transport["tls_trust_pool"] == [(["file", *authority], None)]


def test_nginx_balances_the_replicas_and_upgrades_their_links() -> None:
    conf = parsed((FILES / "nginx.conf").read_text())
    [(name, upstream)] = conf["upstream"]
    assert upstream is not None
    assert len({words[0] for words, _ in upstream["server"]}) == 3
    [(_, server)] = conf["server"]
    assert server is not None
    [(path, location)] = server["location"]
    assert path == ["=", "/arcp"]
    assert location is not None
    assert location["proxy_pass"] == [([f"https://{name[0]}"], None)]
    headers = {words[0]: words[1] for words, _ in location["proxy_set_header"]}
    assert headers["Upgrade"] == "$http_upgrade"
    assert headers["Connection"] == "upgrade"
    # Above the interval of heartbeats: an idle link is not cut.
    assert float(location["proxy_read_timeout"][0][0][0].removesuffix("s")) > 2 * 30


@pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")
def test_nginx_itself_accepts_the_file(tmp_path: Path) -> None:
    named_files = r"listen 443 ssl;|ssl_certificate.*;|proxy_ssl_(verify|trusted_certificate) .*;"
    text = re.sub(named_files, "", (FILES / "nginx.conf").read_text())
    whole = tmp_path / "whole.conf"
    whole.write_text(f"pid {tmp_path}/pid; events {{}} http {{ access_log off; {text} }}")
    done = subprocess.run(
        ["nginx", "-t", "-c", whole, "-p", tmp_path], capture_output=True, text=True, check=False
    )
    assert "syntax is ok" in done.stderr, done.stderr


def test_caddy_balances_the_replicas_that_are_ready() -> None:
    [(_, site)] = parsed((FILES / "Caddyfile").read_text())["agents.example.org"]
    assert site is not None
    [(words, proxy)] = site["reverse_proxy"]
    assert words[0] == "/arcp"
    assert len(set(words[1:])) == 3
    assert proxy is not None
    assert proxy["health_uri"] == [(["/readyz"], None)]
