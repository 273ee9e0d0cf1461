"""Shows the updates of an ACP agent on a terminal: Markdown, tools, diffs, questions."""

from __future__ import annotations

import difflib

from rich.console import Console, RenderableType
from rich.live import Live
from rich.markdown import Markdown
from rich.syntax import Syntax
from rich.text import Text

from arcp_client.acp import PermissionRequest, Turn, schema, updates
from arcp_client.cli.view import terminal

__all__ = ["AcpScreen"]

_MARKS = {"completed": ("✓", "green"), "failed": ("✗", "red"), "in_progress": ("…", "cyan")}
_DIFF_LINES = 60


class AcpScreen:
    """The output for a user. Control characters in an agent's text are made visible."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or terminal.out()
        self._words = ""
        self._live: Live | None = None
        self._last: dict[str, str] = {}

    def show(self, update: updates.Update, state: object) -> None:
        """Show one update, after all earlier ones."""
        match update:
            case updates.AgentMessageChunk(content=updates.Text(text=text)):
                self._stream(text)
            case updates.UserMessageChunk(content=updates.Text(text=text)) if update.replay:
                self._line(Text(f"› {terminal.harmless(text)}", style="bold"))
            case updates.AgentThoughtChunk(content=updates.Text(text=text)):
                self._line(Text(terminal.harmless(text, lines=True), style="dim italic"))
            case updates.ToolCall() | updates.ToolCallUpdate():
                self._tool(update, state)
            case updates.Plan(entries=entries):
                for entry in entries:
                    mark, style = _MARKS.get(entry.status, ("·", "dim"))
                    self._line(Text(f"  {mark} {terminal.harmless(entry.content)}", style=style))
            case updates.Notice(title=title):
                self._line(Text(terminal.harmless(title), style="yellow"))
            case _:
                return

    def question(self, request: PermissionRequest) -> None:
        """Show a permission request, with numbered answers."""
        title = terminal.harmless(request.tool_call.title or "a tool")
        self._line(Text(f"May it? {title}", style="bold yellow"))
        self._diffs(request.tool_call)
        for number, option in enumerate(request.options, 1):
            self._line(Text(f"  {number}  {terminal.harmless(option.name)}"))
        self._ask()

    def again(self, hint: str) -> None:
        """Report an invalid answer."""
        self._console.print(Text(hint, style="yellow"), soft_wrap=True)
        self._ask()

    def _ask(self) -> None:
        self._console.print(Text("y, n, number, or Enter for no: ", style="yellow"), end="")

    def ready(self) -> None:
        """Prompt the user."""
        self._settle()
        self._console.print(Text("› ", style="bold cyan"), end="")

    def end(self, turn: Turn) -> None:
        """Show the end of the agent's turn."""
        self._settle()
        if turn.stop_reason != "end_turn":
            terminal.tell(terminal.err(), f"ended: {turn.stop_reason}", "dim")

    # ------------------------------------------------------------------ parts

    def _stream(self, text: str) -> None:
        text = terminal.harmless(text, lines=True)
        if not self._console.is_terminal:
            self._console.print(Text(text), end="", soft_wrap=True)
            self._words = "\n" if text.endswith("\n") else " "
            return
        self._words += text
        if self._live is None:
            self._live = Live(
                console=self._console, auto_refresh=False, vertical_overflow="visible"
            )
            self._live.start()
        self._live.update(Markdown(self._words), refresh=True)

    def _settle(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
        elif self._words == " ":
            self._console.print()
        self._words = ""

    def _line(self, what: RenderableType) -> None:
        self._settle()
        self._console.print(what, soft_wrap=True)

    def _tool(self, update: updates.ToolCall | updates.ToolCallUpdate, state: object) -> None:
        calls = getattr(state, "tool_calls", {})
        call = calls.get(update.tool_call_id)
        if call is None or self._last.get(call.tool_call_id) == (call.status or ""):
            return
        self._last[call.tool_call_id] = call.status or ""
        mark, style = _MARKS.get(call.status or "", ("→", "cyan"))
        self._line(Text(f"{mark} {terminal.harmless(call.title or 'tool')}", style=style))
        if call.status == "completed":
            self._diffs(call)

    def _diffs(self, call: schema.ToolCall) -> None:
        for part in call.content:
            if isinstance(part, schema.Diff):
                lines = difflib.unified_diff(
                    (part.old_text or "").splitlines(),
                    part.new_text.splitlines(),
                    part.path,
                    part.path,
                    lineterm="",
                )
                shown = [terminal.harmless(line) for line in lines]
                if len(shown) > _DIFF_LINES:
                    shown[_DIFF_LINES:] = [f"… {len(shown) - _DIFF_LINES} more lines"]
                self._line(Syntax("\n".join(shown), "diff", background_color="default"))
