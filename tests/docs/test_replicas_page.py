"""The files of the page on replicas name options that the command has."""

from __future__ import annotations

import configparser
import inspect
import re
import shlex
from pathlib import Path

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
    grace = float(options[options.index("--grace") + 1])
    assert float(unit["Service"]["TimeoutStopSec"]) > grace


def test_the_proxies_pass_the_path_of_the_runtime_to_all_replicas() -> None:
    for name in ("nginx.conf", "Caddyfile"):
        text = (FILES / name).read_text()
        assert text.count("{") == text.count("}")
        assert "/arcp" in text
        assert len(set(re.findall(r"10\.0\.0\.\d+:7777", text))) == 3
