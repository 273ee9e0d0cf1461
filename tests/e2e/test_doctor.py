"""The command ``doctor``, as its own process against runtimes on a socket."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from arcp_client.runtime import Server
from arcp_client.testing import ScriptedRuntime
from tests.e2e.shell import fresh, run
from tests.interop.reference import ReferenceRuntime


async def doctor(tmp_path: Path, *words: str) -> tuple[int, str, str]:
    env = {**fresh(tmp_path), "ARCP_TOKEN": "tok-alice", "COLUMNS": "100"}
    done = await asyncio.to_thread(run, env, "doctor", *words, cwd=tmp_path)
    return done.returncode, done.stdout, done.stderr


async def test_a_runtime_that_conforms_is_0(server: Server, tmp_path: Path) -> None:
    code, out, err = await doctor(tmp_path, server.url)
    assert (code, err) == (0, "")
    assert "dialect   arcp-client (`runtime.sdk` begins with `arcp-client`)" in out
    words = "every examined capability conforms; not examined: jobs, running jobs, histories"
    assert words in " ".join(out.split())


async def test_the_reference_deviates_and_is_1(tmp_path: Path) -> None:
    async with ReferenceRuntime() as served:
        code, out, _ = await doctor(tmp_path, served.url, "--json")
    assert code == 1
    report = json.loads(out)
    assert report["schema"] == "arcp-client.doctor/1"
    assert (report["dialect"], report["conforms"]) == ("python", False)
    deviating = [f for f in report["findings"] if f["verdict"] == "deviates"]
    odd = {f["capability"]: f["section"] for f in deviating}
    assert odd == {
        "running jobs": "§6.3",
        "close": "§6.7",
        "histories": "§7.6",
        "event numbers": "§8.3",
        "early resumes": "§6.3",
        "refusals": "§12",
        "long frames": "§4",
    }
    assert all(f["seen"] and f["remedy"] for f in deviating)
    assert report["not_examined"] == ["jobs"]


async def test_deviations_are_in_the_table_with_what_is_done_about_them(tmp_path: Path) -> None:
    async with ScriptedRuntime("ruby") as runtime, runtime.serve() as served:
        code, out, _ = await doctor(tmp_path, served.url)
    assert code == 1
    for text in ("deviates", "§6.2", "§6.7", "session.bye", "does not conform"):
        assert text in out


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/arcp", "ws://127.0.0.1:1/arcp"])
async def test_no_runtime_is_told_from_a_bad_one(tmp_path: Path, url: str) -> None:
    code, out, err = await doctor(tmp_path, url, "--connect-timeout", "0.5")
    assert code == (2 if url.startswith("http") else 3)
    assert (out, "ws://" in err) == ("", True)
