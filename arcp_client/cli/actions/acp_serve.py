"""Serves an agent of a runtime to an editor, over stdin and stdout."""

from __future__ import annotations

from arcp_client import ArcpError
from arcp_client.acp.serving import refuse, serve
from arcp_client.cli.actions.follow import read_lease
from arcp_client.cli.connection import Place, connected
from arcp_client.cli.errors import command_error
from arcp_client.cli.exit_codes import CommandError, Exit
from arcp_client.cli.interrupts import Interrupts, execute
from arcp_client.transports.stdio import StdioServerTransport

__all__ = ["acp_serve"]

_MAX_LINE = 64 * 1024 * 1024


def acp_serve(
    where: Place, agent: str, *, cwd: str | None, lease: list[str], max_runtime: float | None
) -> Exit:
    """Serve the agent until the editor closes stdin, or until a signal."""
    asked = read_lease(lease)

    async def body(interrupts: Interrupts) -> Exit:
        transport = StdioServerTransport(max_line=_MAX_LINE)
        try:
            async with connected(where, interrupts) as client, interrupts.stop():
                await serve(
                    client,
                    agent,
                    transport=transport,
                    cwd=cwd,
                    lease=asked,
                    max_runtime=max_runtime,
                )
        except (ArcpError, CommandError) as error:
            problem = error if isinstance(error, CommandError) else command_error(error)
            # The editor shows the answer to its first request; it may hide our stderr.
            async with interrupts.stop():
                await refuse(transport, problem.happened)
            raise problem from error
        finally:
            await transport.close(timeout=1.0)
        return Exit.SUCCESS

    return execute(body)
