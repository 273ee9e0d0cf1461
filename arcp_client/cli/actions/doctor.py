"""Prints the diagnosis of a runtime."""

from __future__ import annotations

from urllib.parse import urlsplit

from rich import box
from rich.table import Table
from rich.text import Text

from arcp_client import WebSocketConnector
from arcp_client.cli.actions.diagnosis import Diagnosis, examine
from arcp_client.cli.connection import Place
from arcp_client.cli.exit_codes import CommandError, Exit
from arcp_client.cli.interrupts import Interrupts, execute
from arcp_client.cli.output_format import Output
from arcp_client.cli.view import terminal

__all__ = ["doctor"]

_COLOURS = {
    "ok": "green",
    "deviates": "yellow",
    "broken": "red",
    "not offered": "dim",
    "not examined": "dim",
}


def doctor(where: Place) -> Exit:
    """Examine a runtime; succeed only if every examined capability conforms."""
    if urlsplit(where.url).scheme not in ("ws", "wss"):
        raise CommandError(
            Exit.USAGE,
            "the URL of a runtime begins with ws:// or wss://",
            "see --help and ARCP_URL",
        )

    async def body(interrupts: Interrupts) -> Exit:
        found: Diagnosis | None = None
        async with interrupts.stop():
            connector = WebSocketConnector(where.url)
            found = await examine(connector, token=where.token, patience=where.connect_timeout)
        if found is None:
            raise CommandError(Exit.INTERRUPTED, "interrupted")
        _print_findings(where, found)
        return Exit.SUCCESS if found.conforms else Exit.FAILED

    return execute(body)


def _print_findings(where: Place, found: Diagnosis) -> None:
    session = found.session
    if where.output is not Output.TEXT:
        document = {
            "schema": "arcp-client.doctor/1",
            "url": where.url,
            "runtime": {"name": session.runtime.name, "version": session.runtime.version},
            "dialect": session.dialect,
            "features": sorted(session.features),
            "conforms": found.conforms,
            "not_examined": found.not_examined,
            "findings": [
                {
                    "capability": finding.capability,
                    "verdict": finding.verdict,
                    "section": finding.section,
                    "seen": finding.seen,
                    "remedy": finding.remedy if finding.verdict != "ok" else "",
                }
                for finding in found.findings
            ],
        }
        print(terminal.as_json(document))
        return
    console = terminal.out()
    for name, value in (
        ("runtime", f"{session.runtime.name} {session.runtime.version}".strip()),
        ("dialect", f"{session.dialect} ({found.mark})"),
        ("features", ", ".join(sorted(session.features)) or "none"),
    ):
        console.print(Text(f"{name:<9} {terminal.harmless(value)}"), soft_wrap=True)
    console.print(_table(found))
    verdict = "the runtime does not conform; the client handles it as shown"
    if found.conforms:
        verdict = "every examined capability conforms"
    if found.not_examined:
        verdict += f"; not examined: {', '.join(found.not_examined)}"
    console.print(Text(verdict, style="green" if found.conforms else "yellow"))


def _table(found: Diagnosis) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("capability", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("spec", no_wrap=True)
    table.add_column("the runtime")
    table.add_column("the client")
    for finding in found.findings:
        fine = finding.verdict == "ok"
        table.add_row(
            Text(finding.capability),
            Text(finding.verdict, style=_COLOURS[finding.verdict]),
            Text(finding.section),
            Text(terminal.harmless(finding.seen)),
            Text("" if fine else finding.remedy),
        )
    return table
