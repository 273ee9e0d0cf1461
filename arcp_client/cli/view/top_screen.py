"""The full screen of ``arcp-client top``: a live table of jobs, and the events of one job.

It needs the extra ``tui``. `TopTable` draws the table; this module reads keys and refreshes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

from rich.text import Text
from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen, Screen
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input, Label, RichLog

from arcp_client.cli.view.job_table import FILTERS, SORTS, Row, TopTable, name_of, sentence
from arcp_client.cli.view.terminal import harmless
from arcp_client.cli.view.top_question import Answering, QuestionDialog

__all__ = ["EventPage", "TopApp"]

KEYS = "enter open · a answer · / filter · l look · r runs · o order · c cancel · q quit"
_REFRESH = 0.5
_LOG_LINES = 5_000
_ANSI_THEMES = ("ansi-dark", "textual-ansi")
"""Themes with the colours of the terminal, by newer and older versions of Textual."""

EventPage = Callable[[str, int], Awaitable[tuple[int, Sequence[Text]]]]
"""Returns the events of a job after a number: the number of the last one, and their texts."""


class _Table(Widget):
    """Shows a `TopTable`; only the lines on the screen are drawn."""

    can_focus = True

    def __init__(self, table: TopTable) -> None:
        super().__init__(id="table")
        self._table = table
        self._lines: list[Text] = []

    def redraw(self) -> None:
        """Draw the table as it is now."""
        width, height = self.size
        self._lines = self._table.lines(width, height, datetime.now(UTC), keys=KEYS)
        self.refresh()

    def on_resize(self, _: events.Resize) -> None:
        self.redraw()

    def render_line(self, y: int) -> Strip:
        if y >= len(self._lines):
            return Strip.blank(self.size.width)
        strip = Strip(self._lines[y].render(self.app.console), self._lines[y].cell_len)
        return strip.adjust_cell_length(self.size.width)


class _Ask(ModalScreen[bool]):
    """Asks whether to cancel a job."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "yes"),
        Binding("n,escape,q", "answer(False)", "no"),
    ]
    CSS = "_Ask { align: center middle; } _Ask Label { border: round; padding: 1 2; width: auto; }"

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        yield Label(Text(f"{self._question}\n\ny: cancel it · n: leave it running"))

    def action_answer(self, yes: bool) -> None:
        """Close with the answer."""
        self.dismiss(yes)


class _Events(Screen[None]):
    """The events of one job, as they come."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,left", "back", "back"),
        Binding("f", "follow", "follow"),
        Binding("a", "answer", "answer"),
        Binding("c", "cancel", "cancel"),
    ]
    CSS = "_Events RichLog { height: 1fr; } _Events Label { width: 100%; height: 1; }"

    def __init__(self, job_id: str, page: EventPage, row: Callable[[str], Row | None]) -> None:
        super().__init__()
        self._job_id = job_id
        self._page = page
        self._row = row
        self._seen = 0
        self._reading = False

    def compose(self) -> ComposeResult:
        yield Label(id="head")
        yield RichLog(max_lines=_LOG_LINES, wrap=True, min_width=20)
        yield Label(id="keys")

    def on_mount(self) -> None:
        self.query_one(RichLog).focus()
        self.set_interval(_REFRESH, self._read)
        self.call_later(self._read)

    async def _read(self) -> None:
        if self._reading:
            return
        self._reading = True
        log = self.query_one(RichLog)
        try:
            row = self._row(self._job_id)
            head = sentence(row, datetime.now(UTC)) if row is not None else self._job_id
            self.query_one("#head", Label).update(Text(head, "reverse", no_wrap=True))
            word = "following" if log.auto_scroll else "not following"
            keys = f"↑↓ scroll · f {word} · a answer · c cancel · esc back"
            self.query_one("#keys", Label).update(Text(keys, "dim"))
            self._seen, texts = await self._page(self._job_id, self._seen)
            for text in texts:
                log.write(text)
        except Exception as error:  # noqa: BLE001 - shown; the table stays usable
            log.write(Text(harmless(f"no events: {error}"), "yellow"))
            self._reading = True  # it would fail again
            return
        self._reading = False

    def action_back(self) -> None:
        """Return to the table."""
        self.app.pop_screen()

    def action_follow(self) -> None:
        """Follow the newest event, or stop following it."""
        log = self.query_one(RichLog)
        log.auto_scroll = not log.auto_scroll
        if log.auto_scroll:
            log.scroll_end(animate=False)

    async def action_cancel(self) -> None:
        """Cancel the job."""
        assert isinstance(self.app, TopApp)
        self.app.ask_cancel(self._job_id)

    def action_answer(self) -> None:
        """Answer the question of the job."""
        assert isinstance(self.app, TopApp)
        self.app.ask_question(self._job_id)


class TopApp(App[None]):
    """The application.

    Args:
        table: the jobs.
        refresh: called twice a second; brings the table up to date.
        cancel: cancels a job; returns what to say.
        page: returns the events of a job.
        row: returns the row of a job.
        answering: lists the questions of agents, and answers them.
    """

    CSS = """
    Screen { layers: base above; }
    #table { width: 100%; height: 100%; }
    #filter { dock: bottom; height: 1; border: none; display: none; }
    #filter.open { display: block; }
    """
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,ctrl+c", "quit", "quit", priority=False),
        Binding("up,k", "move(-1)", "up"),
        Binding("down,j", "move(1)", "down"),
        Binding("pageup", "screenful(-1)", "page up"),
        Binding("pagedown,space", "screenful(1)", "page down"),
        Binding("home,g", "move(-1000000)", "first"),
        Binding("end,G", "move(1000000)", "last"),
        Binding("enter,right,f", "open", "open"),
        Binding("slash", "filter", "filter"),
        Binding("l", "only('look')", "needs attention"),
        Binding("r", "only('running')", "running"),
        Binding("e", "only('ended')", "ended"),
        Binding("escape", "everything", "all"),
        Binding("o", "order", "order"),
        Binding("a", "answer", "answer"),
        Binding("c", "cancel", "cancel"),
    ]

    def __init__(
        self,
        table: TopTable,
        *,
        refresh: Callable[[Sequence[str]], None],
        cancel: Callable[[str], Awaitable[str]],
        page: EventPage,
        row: Callable[[str], Row | None],
        answering: Answering,
    ) -> None:
        super().__init__(ansi_color=True)
        self._answering = answering
        self._table = table
        self._shown = _Table(table)
        self._refresh_rows = refresh
        self._cancel_job = cancel
        self._page = page
        self._row = row

    def compose(self) -> ComposeResult:
        """Lay the screen out. Textual calls this."""
        yield self._shown
        yield Input(id="filter", placeholder="filter; enter keeps it, escape removes it")

    def on_mount(self) -> None:
        """Begin to refresh. Textual calls this."""
        plain = [name for name in _ANSI_THEMES if name in self.available_themes]
        self.theme = plain[0] if plain else self.theme
        self.query_one("#table").focus()
        self.set_interval(_REFRESH, self.update)
        self.call_after_refresh(self.update)

    def update(self) -> None:
        """Bring the table up to date."""
        widget = self._shown
        if widget.is_attached:  # a timer may still call this while the app ends
            self._refresh_rows(self._table.visible(widget.size.height))
            widget.redraw()

    def _redraw(self) -> None:
        self._table.arrange()
        self._shown.redraw()

    def action_move(self, steps: int) -> None:
        """Select another job."""
        self._table.note = ""
        self._table.move(steps)
        self._redraw()

    def action_screenful(self, screens: int) -> None:
        """Move by a screenful."""
        self.action_move(screens * max(self.size.height - 5, 1))

    def action_only(self, which: str) -> None:
        """Show only these jobs; all again the second time."""
        assert which in FILTERS
        self._table.only = "" if self._table.only == which else which
        self._redraw()

    def action_everything(self) -> None:
        """Show all jobs."""
        self._table.only = self._table.text = self._table.note = ""
        self._close_filter()
        self._redraw()

    def action_order(self) -> None:
        """Sort by the next column."""
        self._table.sort = SORTS[(SORTS.index(self._table.sort) + 1) % len(SORTS)]
        self._redraw()

    def action_filter(self) -> None:
        """Type a filter."""
        box = self.query_one("#filter", Input)
        box.add_class("open")
        box.value = self._table.text
        box.focus()

    def _close_filter(self) -> None:
        self.query_one("#filter", Input).remove_class("open")
        self.query_one("#table").focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while the user types."""
        self._table.text = event.value.strip()
        self._redraw()

    def on_input_submitted(self, _: Input.Submitted) -> None:
        """Keep the filter."""
        self._close_filter()

    def action_open(self) -> None:
        """Show the events of the selected job."""
        row = self._table.selected
        if row is not None and len(self.screen_stack) == 1:
            self.push_screen(_Events(row["job_id"], self._page, self._row))

    def action_answer(self) -> None:
        """Answer the question of the selected job."""
        row = self._table.selected
        if row is not None:
            self.ask_question(row["job_id"])

    def ask_question(self, job_id: str) -> None:
        """Answer the oldest open question of a job."""
        question = self._answering.question(job_id)
        if question is None:
            self._say("it asks nothing now")
            return

        def done(how: str | None) -> None:
            if how:
                self._say(how)

        self.push_screen(QuestionDialog(question, self._answering), done)

    def _say(self, text: str) -> None:
        self._table.note = harmless(text)
        self._redraw()

    def action_cancel(self) -> None:
        """Cancel the selected job, if the user says yes."""
        row = self._table.selected
        if row is not None:
            self.ask_cancel(row["job_id"])

    def ask_cancel(self, job_id: str) -> None:
        """Cancel a job, if the user says yes."""
        row: Any = self._row(job_id) or {"job_id": job_id}

        def answered(yes: bool | None) -> None:
            if yes:
                self.run_worker(self._cancel(job_id), exit_on_error=False)

        self.push_screen(_Ask(f"Cancel {name_of(row)}?"), answered)

    async def _cancel(self, job_id: str) -> None:
        self._say(await self._cancel_job(job_id))
