"""Declares ``arcp-client replay``, which shows or serves a transcript."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from arcp_client.cli.options import (
    AllowHostOption,
    OutputOptions,
    PortOption,
    ProfileOption,
    SpeedOption,
)


def replay(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file of a transcript.")],
    *,
    job: Annotated[
        str | None, typer.Option(metavar="JOB", help="The job to show; by default the first one.")
    ] = None,
    speed: SpeedOption = "1",
    start: Annotated[
        int, typer.Option("--from", min=1, metavar="N", help="Begin with the job's Nth event.")
    ] = 1,
    serve: Annotated[
        bool, typer.Option("--serve", help="Serve all recorded jobs as a runtime.")
    ] = False,
    port: PortOption = 7777,
    allow_host: AllowHostOption = None,
    profile: ProfileOption = None,
    form: OutputOptions,
) -> int:
    """Show a recorded job, or serve a recording as a runtime.

    The exit code is that of the recorded job (see arcp-client --help), and 7 for an incomplete
    recording.
    """
    from arcp_client.cli.actions import replay as action
    from arcp_client.cli.output_format import Output
    from arcp_client.cli.settings import settle

    pace = action.read_speed(speed)
    if serve:
        return action.serve(file, port=port, speed=pace, allowed_hosts=allow_host or ())
    settled = settle(profile=profile, output=form.chosen())
    return action.replay(
        file, job_id=job, speed=pace, start=start, output=Output(settled.output.value)
    )
