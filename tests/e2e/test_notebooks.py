"""Jobs and clients in notebooks, on a real kernel."""

from __future__ import annotations

import asyncio
import re
import sys
from collections import defaultdict
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

pytestmark = pytest.mark.usefixtures("forked_kernels")

ROOT = Path(__file__).parents[2]
TUTORIAL = ROOT / "docs" / "tutorial" / "first-job.ipynb"
SECONDS = 60

SETUP = """
import asyncio
from arcp_client import Client, Runtime, events
runtime = Runtime(name="nb")
gates = {}

@runtime.agent("gated")
async def gated(name, job):
    await job.log(f"<script>{name}</script>")
    await gates.setdefault(name, asyncio.Event()).wait()
    await job.progress(1, 1)
    return "<b>done</b>"
"""
CONNECT = """
client = Client(runtime)
await client.connect()
"""


@pytest.fixture(scope="module")
def forked_kernels(forked: None) -> None:
    """Kernels are forks, of a process that has imported what a kernel needs."""
    if sys.platform == "linux":
        from tests.forks import prepare  # POSIX only

        prepare("ipykernel.kernelapp")


class Kernel:
    """Runs cells, and keeps what each of them has put out, also later."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.outputs: dict[str, list[tuple[str, dict[str, Any]]]] = defaultdict(list)

    def send(self, code: str) -> str:
        """Start a cell."""
        sent: str = self.client.kc.execute(code)
        return sent

    async def finished(self, cell: str) -> None:
        """Collect outputs until a cell has ended."""
        while True:
            message = await self.client.kc.get_iopub_msg(timeout=SECONDS)
            of = message["parent_header"].get("msg_id", "")
            self.outputs[of].append((message["msg_type"], message["content"]))
            if of == cell and message["content"].get("execution_state") == "idle":
                return

    async def run(self, code: str) -> str:
        """Run a cell that must not fail."""
        cell = self.send(code)
        await self.finished(cell)
        assert not self.errors(cell)
        return cell

    def errors(self, cell: str) -> list[str]:
        return [content["ename"] for kind, content in self.outputs[cell] if kind == "error"]

    def text(self, cell: str) -> str:
        """What a cell has printed."""
        return "".join(c["text"] for kind, c in self.outputs[cell] if kind == "stream")

    def html(self, cell: str, kind: str) -> list[str]:
        return [c["data"]["text/html"] for found, c in self.outputs[cell] if found == kind]


@pytest.fixture
async def kernel(tmp_path: Path) -> AsyncIterator[Kernel]:
    notebook = nbformat.v4.new_notebook()  # type: ignore[no-untyped-call]
    client = NotebookClient(notebook, kernel_name="python3", resources={"metadata": {"path": ROOT}})
    async with client.async_setup_kernel():
        assert client.kc is not None
        kernel = Kernel(client)
        await kernel.run(SETUP)
        yield kernel


async def test_handlers_print_into_the_cell_that_registered_them(kernel: Kernel) -> None:
    registering = await kernel.run(
        CONNECT
        + """
@client.on(events.Progress)
def show(event):
    print("handled", event.current)

job = await client.submit("gated", "a")
"""
    )
    awaiting = await kernel.run("gates['a'].set(); (await job.result()).value")
    await kernel.run("await client.close()")
    assert kernel.text(registering) == "handled 1\n"
    assert kernel.text(awaiting) == ""


async def test_the_display_of_a_job_is_live_and_escaped(kernel: Kernel) -> None:
    showing = await kernel.run(CONNECT + "job = await client.submit('gated', 'a'); display(job)")
    await kernel.run(
        """
gates["a"].set()
await job.result()
await asyncio.gather(*(t for t in asyncio.all_tasks() if "live view" in t.get_name()))
"""
    )
    [first] = kernel.html(showing, "display_data")
    updates = kernel.html(showing, "update_display_data")
    assert "running" in first
    assert "success" in updates[-1]
    assert "&lt;script&gt;a&lt;/script&gt;" in updates[-1]
    assert "<script>" not in "".join([first, *updates])
    ids = {
        content["transient"]["display_id"]
        for kind, content in kernel.outputs[showing]
        if kind in ("display_data", "update_display_data")
    }
    assert len(ids) == 1
    ended = await kernel.run("job")
    assert "success" in kernel.html(ended, "execute_result")[0]
    result = await kernel.run("await job.result()")
    assert "&lt;b&gt;done&lt;/b&gt;" in kernel.html(result, "execute_result")[0]
    client = await kernel.run("client")
    assert "Live(resumed=False)" in kernel.html(client, "execute_result")[0]


async def test_running_the_connecting_cell_again_closes_its_earlier_clients(
    kernel: Kernel,
) -> None:
    cell = """
client, other = Client(runtime), Client(runtime)
await client.connect()
await other.connect()
"""
    first = await kernel.run(cell)
    assert kernel.text(first) == ""
    await kernel.run("old = client, other")
    again = await kernel.run(cell)
    notice = "closed the client of an earlier run of this cell: <Client runtime://nb Live>\n"
    assert kernel.text(again) == 2 * notice
    states = await kernel.run("print(*old, client, other, sep='\\n')")
    names = re.findall(r"<Client runtime://nb (\w+)>", kernel.text(states))
    assert names == ["Closed", "Closed", "Live", "Live"]
    different = await kernel.run(CONNECT)
    assert kernel.text(different) == ""


async def test_a_client_with_a_store_resumes_its_jobs_when_its_cell_runs_again(
    kernel: Kernel, tmp_path: Path
) -> None:
    cell = f"""
from arcp_client import SqliteStore
client = Client(runtime, store=SqliteStore({str(tmp_path / "client.db")!r}))
await client.connect()
"""
    await kernel.run(cell)
    await kernel.run("job = await client.submit('gated', 'a')")
    again = await kernel.run(cell)
    assert kernel.text(again).startswith("detached the client of an earlier run")
    same = await kernel.run("[found] = client.open_jobs(); print(found.id == job.id)")
    assert kernel.text(same) == "True\n"
    await kernel.run("gates['a'].set(); await found.result(); await client.close()")


@pytest.mark.parametrize("waiting", ["await job.result()", "while True: pass"])
async def test_an_interrupt_leaves_a_usable_client(kernel: Kernel, waiting: str) -> None:
    await kernel.run(CONNECT + "job = await client.submit('gated', 'a')")
    cell = kernel.send(f"print('waiting', flush=True)\n{waiting}")
    while "waiting" not in kernel.text(cell):
        message = await kernel.client.kc.get_iopub_msg(timeout=SECONDS)
        of = message["parent_header"].get("msg_id", "")
        kernel.outputs[of].append((message["msg_type"], message["content"]))
    await kernel.client.km.interrupt_kernel()
    await kernel.finished(cell)
    assert kernel.errors(cell) in (["CancelledError"], ["KeyboardInterrupt"])
    after = await kernel.run(
        "gates['a'].set(); print(await client.ping() >= 0, (await job.result()).value)"
    )
    assert kernel.text(after) == "True <b>done</b>\n"
    await kernel.run("await client.close()")


def test_the_tutorial_runs_as_a_notebook() -> None:
    notebook = nbformat.read(TUTORIAL, as_version=4)  # type: ignore[no-untyped-call]
    written = [printed(cell) for cell in notebook.cells if cell.cell_type == "code"]
    client = NotebookClient(notebook, timeout=SECONDS, resources={"metadata": {"path": ROOT}})
    asyncio.run(client.async_execute())
    assert [printed(cell) for cell in notebook.cells if cell.cell_type == "code"] == written
    assert any(written)


def printed(cell: Any) -> str:
    """What a cell of a notebook has printed."""
    return "".join(one["text"] for one in cell.outputs if one.output_type == "stream")
