"""The pure modules of the dashboard, run in a browser without a server."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from playwright.async_api import Page

from tests.e2e.web.site import ROOT, STATIC
from tests.exact_numbers import NUMBERS

pytestmark = pytest.mark.asyncio(loop_scope="session")

SCRIPT = """async ([module, body, argument]) => {
    const m = await import('/' + module);
    return new Function('m', 'x', body)(m, argument);
}"""


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)

HEADER = {
    "schema": "arcp-client.transcript/1",
    "type": "header",
    "at": 0,
    "created_at": "2026-01-01T00:00:00Z",
}


async def run(page: Page, module: str, body: str, argument: Any = None) -> Any:
    """Run a function body with the module as ``m`` and the argument as ``x``."""
    return await page.evaluate(SCRIPT, [module, body, argument])


def entries(*events: dict[str, Any], first: int = 1) -> list[dict[str, Any]]:
    return [{"n": n, "at": 1000 * n, "event": e} for n, e in enumerate(events, first)]


def log(text: str, level: str = "info") -> dict[str, Any]:
    return {"kind": "log", "level": level, "message": text}


TIMELINE = """
    const t = new m.Timeline(x.limits);
    const changed = [];
    for (const batch of x.batches) changed.push([...t.apply(batch)]);
    const rows = [];
    for (let id = t.first; id < t.next; id += 1) rows.push(t.row(id));
    const {first, last, received, repeated, missing, dropped, errors} = t;
    return {rows, changed, first, last, received, repeated, missing, dropped, errors};
"""


async def fold(page: Page, *batches: list[dict[str, Any]], **limits: int) -> Any:
    given = {"limits": limits, "batches": list(batches)}
    return await run(page, "timeline.js", TIMELINE, given)


class TestTimeline:
    async def test_a_repeated_entry_is_dropped_and_counted(self, modules: Page) -> None:
        batch = entries(log("a"), log("b"), log("c"))
        done = await fold(modules, batch, batch[1:], entries(log("d"), first=4))
        assert [row["event"]["message"] for row in done["rows"]] == ["a", "b", "c", "d"]
        assert (done["received"], done["repeated"], done["missing"]) == (4, 2, 0)

    async def test_missing_events_become_a_row_that_names_them(self, modules: Page) -> None:
        done = await fold(modules, entries(log("a")), entries(log("f"), first=6))
        kinds = [row["kind"] for row in done["rows"]]
        assert kinds == ["log", "hole", "log"]
        assert done["rows"][1]["event"] == {"first": 2, "last": 5}
        assert done["missing"] == 4

    async def test_a_call_and_its_result_are_one_row(self, modules: Page) -> None:
        call = {"kind": "tool_call", "tool": "grep", "args": {"q": 1}, "call_id": "c1"}
        result = {"kind": "tool_result", "call_id": "c1", "result": 3, "error": None}
        done = await fold(modules, entries(call, log("between")), entries(result, first=3))
        assert [row["kind"] for row in done["rows"]] == ["tool_call", "log"]
        assert done["rows"][0]["result"]["result"] == 3
        assert done["changed"] == [[], [done["rows"][0]["id"]]]
        assert done["last"] == 3

    async def test_calls_that_cross_keep_their_own_results(self, modules: Page) -> None:
        events = [
            {"kind": "tool_call", "tool": "a", "call_id": "1"},
            {"kind": "tool_call", "tool": "b", "call_id": "2"},
            {"kind": "tool_result", "call_id": "2", "error": {"code": "X"}},
            {"kind": "tool_result", "call_id": "1", "result": "one"},
        ]
        done = await fold(modules, entries(*events))
        assert done["rows"][0]["result"]["result"] == "one"
        assert done["rows"][1]["result"]["error"] == {"code": "X"}
        assert done["errors"] == 1

    async def test_a_result_without_its_call_is_a_row_of_its_own(self, modules: Page) -> None:
        done = await fold(modules, entries({"kind": "tool_result", "call_id": "?", "result": 1}))
        assert [row["kind"] for row in done["rows"]] == ["tool_result"]

    async def test_progress_in_a_row_is_one_row_with_the_newest(self, modules: Page) -> None:
        steps = [{"kind": "progress", "current": n, "total": 9, "units": "files"} for n in range(5)]
        other = {"kind": "progress", "current": 1, "units": "tests"}
        done = await fold(modules, entries(*steps, other, log("x"), steps[4]))
        assert [(row["kind"], row["count"]) for row in done["rows"]] == [
            ("progress", 5),
            ("progress", 1),
            ("log", 1),
            ("progress", 1),
        ]
        assert done["rows"][0]["event"]["current"] == 4
        assert done["received"] == 8

    async def test_rows_are_bounded_and_the_dropped_counted(self, modules: Page) -> None:
        batch = entries(*[log(str(n)) for n in range(250)])
        done = await fold(modules, batch, rows=100)
        assert len(done["rows"]) <= 100
        assert done["dropped"] + len(done["rows"]) == 250
        assert done["rows"][-1]["event"]["message"] == "249"
        assert done["rows"][0]["id"] == done["first"] == done["dropped"]

    async def test_bytes_are_bounded_too(self, modules: Page) -> None:
        batches = [entries(log(str(n)), first=n) for n in range(1, 51)]
        done = await fold(modules, *batches, bytes=10_000)
        assert 0 < len(done["rows"]) <= 20
        assert done["dropped"] == 50 - len(done["rows"])

    async def test_batches_make_no_difference(self, modules: Page) -> None:
        events = []
        for n in range(60):
            events += [
                log(str(n)),
                {"kind": "tool_call", "tool": "t", "call_id": str(n)},
                {"kind": "progress", "current": n},
                {"kind": "tool_result", "call_id": str(n), "result": n},
            ]
        whole = entries(*events)
        at_once = await fold(modules, whole)
        one_by_one = await fold(modules, *[[entry] for entry in whole])
        shown = [
            [(r["id"], r["n"], r["kind"], r.get("resultN")) for r in done["rows"]]
            for done in (at_once, one_by_one)
        ]
        assert shown[0] == shown[1]


class TestJobState:
    async def test_a_streamed_result_is_joined_without_duplicates(self, modules: Page) -> None:
        body = """
            const s = new m.ResultStreams();
            for (const e of x) s.take(e);
            return [...s.byId.values()];
        """
        pieces = [
            {"result_id": "r", "chunk_seq": n, "data": f"{n};", "encoding": "utf8", "more": n < 3}
            for n in (0, 1, 1, 0, 2, 3)
        ]
        (stream,) = await run(modules, "jobstate.js", body, pieces)
        assert stream["text"] == "0;1;2;3;"
        assert (stream["chunks"], stream["missing"], stream["done"]) == (4, 0, True)

    async def test_only_the_end_of_a_long_result_is_kept(self, modules: Page) -> None:
        body = """
            const s = new m.ResultStreams();
            for (let n = 0; n < 400; n += 1) {
                s.take({result_id: 'r', chunk_seq: n, data: 'x'.repeat(1000), more: true});
            }
            const [one] = s.byId.values();
            return {kept: one.text.length, cut: one.cut, size: one.size};
        """
        done = await run(modules, "jobstate.js", body)
        assert done["kept"] + done["cut"] == done["size"] == 400_000
        assert done["kept"] <= 64 * 1024

    async def test_a_reset_drops_all_rows_and_the_next_entry_may_have_any_number(
        self, modules: Page
    ) -> None:
        body = """
            const s = new m.JobState();
            s.take('events', x, 100);
            s.take('reset', {reason: 'expired'}, 10);
            s.take('events', x.map((e) => ({...e, n: e.n + 50})), 100);
            const {last, missing, size} = s.timeline;
            return {last, missing, size, older: s.older};
        """
        done = await run(modules, "jobstate.js", body, entries(log("a"), log("b")))
        assert done == {"last": 52, "missing": 0, "older": 50, "size": 2}


class TestOverview:
    async def test_rows_are_inserted_updated_and_removed(self, modules: Page) -> None:
        body = """
            let s = m.initial;
            const before = s;
            const jobs = [{job_id: 'a', status: 'pending'}];
            s = m.reduce(s, {type: 'overview', at: 1000, data: {now: 1500, jobs}});
            s = m.reduce(s, {type: 'job', data: {job_id: 'b', status: 'running'}});
            s = m.reduce(s, {type: 'job', data: {job_id: 'a', status: 'success'}});
            s = m.reduce(s, {type: 'gone', data: {job_id: 'b'}});
            return {jobs: [...s.jobs.values()], skew: s.skew, untouched: before.jobs.size};
        """
        done = await run(modules, "overview.js", body)
        assert done["jobs"] == [{"job_id": "a", "status": "success"}]
        assert done["skew"] == 500
        assert done["untouched"] == 0

    async def test_a_message_that_changes_nothing_returns_the_same_state(
        self, modules: Page
    ) -> None:
        body = """
            return m.reduce(m.initial, {type: 'gone', data: {job_id: 'x'}}) === m.initial
                && m.reduce(m.initial, {type: 'news', data: {}}) === m.initial;
        """
        assert await run(modules, "overview.js", body) is True


class TestTable:
    JOBS = (
        {"job_id": "a", "status": "success", "agent": "zip", "created_at": "2026-01-01T00:00:00Z"},
        {"job_id": "b", "status": "running", "agent": "ant", "created_at": "2026-01-01T00:00:01Z"},
        {"job_id": "c", "status": "running", "agent": "bee", "created_at": "2026-01-01T00:00:02Z",
         "parent_job_id": "a", "progress": {"current": 1, "total": 4}},
        {"job_id": "d", "status": "error", "agent": "bee", "created_at": "2026-01-01T00:00:03Z",
         "parent_job_id": "c", "progress": {"current": 3, "total": 4}},
    )  # fmt: skip
    BODY = """
        const jobs = new Map(x.jobs.map((row) => [row.job_id, row]));
        return m.arrange(jobs, x.options).map(({row, depth}) => [row.job_id, depth]);
    """

    async def arrange(self, page: Page, jobs: Any = JOBS, **options: Any) -> list[tuple[str, int]]:
        done = await run(page, "table.js", self.BODY, {"jobs": jobs, "options": options})
        return [(name, depth) for name, depth in done]

    async def test_children_stand_below_their_parents_where_the_first_of_them_would(
        self, modules: Page
    ) -> None:
        assert await self.arrange(modules) == [("a", 0), ("c", 1), ("d", 2), ("b", 0)]

    @pytest.mark.parametrize(
        ("sort", "expected"),
        [
            ("job", "abcd"),
            ("status", "bcda"),
            ("agent", "bcda"),
            ("progress", "abcd"),
            ("age", "cbda"),
        ],
    )
    async def test_it_is_sorted_by_each_column(
        self, modules: Page, sort: str, expected: str
    ) -> None:
        flat = await self.arrange(modules, sort=sort, nest=False)
        assert "".join(name for name, _ in flat) == expected

    async def test_a_child_whose_parent_is_filtered_out_stands_alone(self, modules: Page) -> None:
        assert await self.arrange(modules, status="running") == [("c", 0), ("b", 0)]
        assert await self.arrange(modules, text="BEE") == [("c", 0), ("d", 1)]

    async def test_parents_that_name_each_other_are_shown_once(self, modules: Page) -> None:
        circle = [
            {"job_id": "a", "status": "running", "parent_job_id": "b"},
            {"job_id": "b", "status": "running", "parent_job_id": "a"},
        ]
        shown = await self.arrange(modules, circle)
        assert sorted(name for name, _ in shown) == ["a", "b"]


class TestChip:
    @pytest.mark.parametrize(
        ("link", "text"),
        [
            ({"state": "live", "resumed": False}, "live"),
            ({"state": "live", "resumed": True}, "live, resumed"),
            ({"state": "reconnecting", "attempt": 2, "retry_at": 10_000}, "reconnecting in 5 s"),
            ({"state": "reconnecting", "attempt": 2, "retry_at": 5_000}, "reconnecting, attempt 2"),
            ({"state": "connecting", "attempt": 3}, "connecting, attempt 3"),
            ({"state": "closed"}, "closed"),
            (None, "connecting"),
        ],
    )
    async def test_the_chip_shows_the_state_of_the_link(
        self, modules: Page, link: Any, text: str
    ) -> None:
        body = "return m.linkChip(x, {state: 'live'}, 5000).text"
        assert await run(modules, "chip.js", body, link) == text

    async def test_a_lost_link_of_the_page_is_shown_first(self, modules: Page) -> None:
        body = "return m.linkChip({state: 'live'}, {state: 'offline'}, 0)"
        chip = await run(modules, "chip.js", body)
        assert chip["text"] == "page offline, reconnecting"
        assert chip["tone"] == "error"

    @pytest.mark.parametrize(
        ("gap", "text"),
        [
            (None, ""),
            ({"first": 120, "last": 140}, "21 events missing"),
            ({"first": 7, "last": 7}, "1 event missing"),
            ({"first": 120, "last": None}, "events missing"),
        ],
    )
    async def test_a_gap_says_how_many_events_are_missing(
        self, modules: Page, gap: Any, text: str
    ) -> None:
        assert await run(modules, "chip.js", "return m.gapChip(x)", gap) == text


class TestReasons:
    """Why a job needs attention, in words with a time."""

    @pytest.mark.parametrize(
        ("reason", "words"),
        [
            ({"text": "silent", "since": "2026-01-01T00:00:00Z"}, "silent for 40 s"),
            ({"text": "budget in USD ends", "until": "2026-01-01T00:03:50Z"},
             "budget in USD ends in 3 min"),
            ({"text": "lease ends", "until": "2026-01-01T00:00:10Z"}, "lease ends now"),
            ({"text": "lease has expired"}, "lease has expired"),
        ],
    )  # fmt: skip
    async def test_a_reason_is_told_with_its_time(
        self, modules: Page, reason: Any, words: str
    ) -> None:
        now = "Date.parse('2026-01-01T00:00:40Z')"
        body = f"return m.reasonWords(x, {now})"
        assert await run(modules, "reasons.js", body, reason) == words


class TestMoney:
    """What the list shows of a budget."""

    @pytest.mark.parametrize(
        ("left", "code", "tone"),
        [
            ("3.00", None, "plain"),
            ("3.00", "silent", "plain"),
            ("3.00", "budget", "warn"),
            ("0.90", None, "warn"),
            ("0", "spent", "error"),
        ],
    )
    async def test_a_budget_that_is_low_or_ends_soon_has_the_tone_of_a_warning(
        self, modules: Page, left: str, code: str | None, tone: str
    ) -> None:
        meter = {"currency": "USD", "granted": "5.00", "left": left, "spent": "1.00"}
        row = {"meters": [meter], "reason": code and {"code": code}}
        assert await run(modules, "money.js", "return m.moneyLook(x).tone", row) == tone


class TestMarkdown:
    """Results are Markdown of agents: harmless elements come of it, and nothing else."""

    async def shown(self, page: Page, text: str) -> str:
        body = """
            const box = document.createElement('div');
            for (const block of m.blocks(x)) box.append(m.render(block));
            return box.innerHTML;
        """
        found: str = await run(page, "markdown.js", body, text)
        return re.sub(r' (class|tabindex|role|aria-label|scope)="[^"]*"', "", found)

    @pytest.mark.parametrize(
        ("text", "markup"),
        [
            ("# A *b*", "<h3>A <em>b</em></h3>"),
            ("one\ntwo\n\nthree", "<p>one\ntwo</p><p>three</p>"),
            ("**bold** and `code`", "<p><strong>bold</strong> and <code>code</code></p>"),
            ("- a\n- b\n  more", "<ul><li>a</li><li>b\nmore</li></ul>"),
            ("2. a", '<ol start="2"><li>a</li></ol>'),
            ("```py\nx < 1\n\n**y**\n```", "<pre><code>x &lt; 1\n\n**y**</code></pre>"),
            ("> quoted", "<blockquote>quoted</blockquote>"),
            ("---", "<hr>"),
            ("|a|b|\n|-|-|\n|1|2|", "<div><table><thead><tr><th>a</th><th>b</th></tr></thead>"
             "<tbody><tr><td>1</td><td>2</td></tr></tbody></table></div>"),
            ("[click](javascript:alert(1))", "<p>[click](javascript:alert(1))</p>"),
            ("[here](https://evil.example/x)", "<p>here (https://evil.example/x)</p>"),
            ("<img src=x onerror=alert(1)>", "<p>&lt;img src=x onerror=alert(1)&gt;</p>"),
            ("![x](https://evil.example/x.png)", "<p>!x (https://evil.example/x.png)</p>"),
        ],
    )  # fmt: skip
    async def test_what_becomes_of_it(self, modules: Page, text: str, markup: str) -> None:
        assert await self.shown(modules, text) == markup

    async def test_a_text_that_grows_keeps_the_elements_of_its_earlier_blocks(
        self, modules: Page
    ) -> None:
        body = """
            const box = m.markdownBox();
            box.update('# One\\n\\ntwo');
            const [first, second] = box.element.children;
            box.update('# One\\n\\ntwo and more\\n\\nthree');
            const now = [...box.element.children];
            return [now[0] === first, now[1] === second, now.length];
        """
        assert await run(modules, "markdown.js", body) == [True, False, 3]

    async def test_any_text_is_rendered_in_time(self, modules: Page) -> None:
        for hostile in ("*" * 20000, "`" * 20001 + "a", "[" * 20000, "- " * 10000, "|" * 20000):
            await self.shown(modules, hostile)


class TestFamily:
    """Costs of delegated jobs are rolled up, and none is counted twice."""

    async def test_the_costs_of_children_are_in_the_number_of_their_parent_once(
        self, modules: Page
    ) -> None:
        def meter(spent: str, granted: str | None = None) -> list[dict[str, Any]]:
            return [{"currency": "USD", "spent": spent, "granted": granted, "left": None}]

        jobs = [
            {"job_id": "a", "meters": meter("1.5", "5.00"), "tokens": 10},
            {"job_id": "b", "parent_job_id": "a", "meters": meter("0.5"), "tokens": 5},
            {"job_id": "c", "parent_job_id": "b", "meters": meter("0.25")},
            {"job_id": "z", "meters": meter("9")},
        ]
        body = """
            const jobs = new Map(x.map((row) => [row.job_id, row]));
            return m.familyTree(jobs, 'b').map((each) =>
                [each.row.job_id, each.depth, each.spent.get('USD'), each.tokens, each.here]);
        """
        assert await run(modules, "family.js", body, jobs) == [
            ["a", 0, 1.5, 15, False],
            ["b", 1, 0.75, 5, True],
            ["c", 2, 0.25, 0, False],
        ]

    async def test_jobs_that_name_each_other_as_parents_end(self, modules: Page) -> None:
        jobs = [
            {"job_id": "a", "parent_job_id": "b"},
            {"job_id": "b", "parent_job_id": "a"},
        ]
        body = """
            const jobs = new Map(x.map((row) => [row.job_id, row]));
            return m.familyTree(jobs, 'a').length;
        """
        assert await run(modules, "family.js", body, jobs) == 2


class TestTrends:
    """What happened in each of the last minutes."""

    JOBS = (
        {"job_id": "a", "status": "success", "agent": "x", "created_at": "2026-01-01T00:00:30Z",
         "ended_at": "2026-01-01T00:02:30Z", "meters": [{"currency": "USD", "spent": "2.00"}]},
        {"job_id": "b", "status": "error", "agent": "y", "created_at": "2026-01-01T00:01:10Z",
         "ended_at": "2026-01-01T00:01:20Z"},
        {"job_id": "c", "status": "running", "agent": "y", "created_at": "2026-01-01T00:02:50Z"},
    )  # fmt: skip

    async def ask(self, page: Page, what: str) -> Any:
        body = f"""
            const jobs = new Map(x.map((row) => [row.job_id, row]));
            const now = Date.parse('2026-01-01T00:03:00Z');
            return {what};
        """
        return await run(page, "trends.js", body, self.JOBS)

    async def test_jobs_failures_and_costs_of_each_minute(self, modules: Page) -> None:
        found = await self.ask(
            modules,
            "m.minutes(jobs, now).slice(-3)"
            ".map((e) => [e.began, e.ended, e.failed, e.spent.get('USD') ?? 0])",
        )
        assert found == [[1, 0, 0, 0.5], [1, 1, 1, 1], [1, 1, 0, 0.5]]

    async def test_the_slowest_agent_comes_first(self, modules: Page) -> None:
        found = await self.ask(
            modules, "m.agents(jobs, now).map((e) => [e.agent, e.median, e.failed, e.running])"
        )
        assert found == [["x", 120, 0, 0], ["y", 10, 1, 1]]


class TestText:
    @pytest.mark.parametrize(
        ("seconds", "text"),
        [
            (0.12, "0.12 s"),
            (9.96, "10 s"),
            (59.9, "59 s"),
            (200, "3 min 20 s"),
            (7500, "2 h 5 min"),
            (273_600, "3 d 4 h"),
        ],
    )
    async def test_durations(self, modules: Page, seconds: float, text: str) -> None:
        assert await run(modules, "text.js", "return m.duration(x)", seconds) == text

    async def test_controls_and_marks_that_reorder_are_made_visible(self, modules: Page) -> None:
        body = "return m.visible(x)"
        assert await run(modules, "text.js", body, "a\x1b[31mb\u202ec\nd") == "a␛[31mb⟨U+202E⟩c\nd"
        marks = "\u061c\u200e\u200f\u2028\u2029\u202a\u202e\u2066\u2069\x7f\x9b"
        assert not set(await run(modules, "text.js", body, marks)) & set(marks)

    async def test_a_value_that_is_nested_too_deeply_is_shown_in_part(self, modules: Page) -> None:
        body = "return m.pretty(JSON.parse('['.repeat(x) + ']'.repeat(x)))"
        assert (await run(modules, "text.js", body, 100_000)).startswith("[[")
        assert await run(modules, "text.js", body, 1) == "[]"

    async def test_a_preview_stays_short_and_never_splits_a_pair(self, modules: Page) -> None:
        value = {"a": ["😀" * 500, {"deep": [[[[[1]]]]]}], "b" * 5000: 1}
        shown = await run(modules, "text.js", "return m.preview(x, 100)", value)
        assert len(shown) <= 101
        assert not re.search(r"[\ud800-\udfff]", shown)

    @pytest.mark.parametrize(
        ("text", "line", "column", "expected"),
        [
            ('{\n  "a": nope\n}', 2, 8, "a value"),
            ('{"a": 1,}', 1, 9, "a name in double quotes"),
            ("{a: 1}", 1, 2, "a name in double quotes"),
            ('{"a" 1}', 1, 6, "a colon"),
            ("[1 2]", 1, 4, "a comma or the end of the list"),
            ("[1, 2", 1, 6, "a comma or the end of the list"),
            ("[1]]", 1, 4, "the end"),
            ("01", 1, 1, "a value"),
            ('{"a": [1, {"b": "x\ny"}]}', 1, 17, "a value"),
            ("[1}", 1, 3, "a comma or the end of the list"),
        ],
    )
    async def test_invalid_json_is_located(
        self, modules: Page, text: str, line: int, column: int, expected: str
    ) -> None:
        found = await run(modules, "json.js", "return m.parseJson(x)", text)
        assert (found["line"], found["column"]) == (line, column)
        assert found["message"].endswith(f"; {expected} was expected")

    @given(value=JSON, cut=st.integers(0, 60))
    @settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
    async def test_json_that_is_cut_anywhere_is_parsed_or_its_fault_is_located(
        self, modules: Page, value: Any, cut: int
    ) -> None:
        text = json.dumps(value)[:cut]
        found = await run(modules, "json.js", "return m.parseJson(x)", text)
        try:
            assert found == {"value": json.loads(text)}
        except ValueError:
            assert found["line"] == 1
            assert 1 <= found["column"] <= len(text) + 1


class TestReplay:
    def lines(self, *found: dict[str, Any]) -> str:
        return "".join(json.dumps(line) + "\n" for line in found)

    async def test_a_transcript_is_read_by_job(self, modules: Page) -> None:
        text = self.lines(
            HEADER,
            {"type": "job", "at": 0, "job_id": "j", "agent": "a@1"},
            {"type": "event", "at": 0.5, "event": {**log("one"), "job_id": "j"}},
            {"type": "later", "at": 0.6},
            {"type": "event", "at": 1, "event": {"kind": "gap", "first": 3, "last": 4}},
            {"type": "outcome", "at": 2, "job_id": "j", "status": "success"},
            {"type": "end", "at": 2, "reason": "complete"},
        )
        found = await run(
            modules, "transcript.js", "return m.readTranscript(x)", text + "{broken\n"
        )
        (job,) = found["jobs"]
        assert job["start"]["agent"] == "a@1"
        assert [(e["n"], e["t"], e["event"]["kind"]) for e in job["entries"]] == [
            (1, 0.5, "log"),
            (2, 1, "gap"),
        ]
        assert job["entries"][0]["at"] == 1767225600500
        assert (found["skipped"], found["complete"], job["status"]) == (1, True, "success")

    async def test_a_gap_is_in_the_stream_of_its_job(self, modules: Page) -> None:
        gap = {"kind": "gap", "first": 3, "last": 4}
        text = self.lines(
            HEADER,
            {"type": "job", "at": 0, "job_id": "j", "agent": "a@1"},
            {"type": "job", "at": 0, "job_id": "k", "agent": "a@1"},
            {"type": "event", "at": 1, "event": gap, "job_id": "k"},
        )
        found = await run(modules, "transcript.js", "return m.readTranscript(x)", text)
        assert [len(job["entries"]) for job in found["jobs"]] == [0, 1]

    @pytest.mark.parametrize(
        "odd",
        [
            {"type": "job", "job_id": {}},
            {"type": "job", "job_id": "j", "lease": 5},
            {"type": "job", "job_id": "j", "lease": {"cost.budget": 5, "a": None, "b": [1, "x"]}},
            {"type": "job", "job_id": "__proto__", "lease": {"__proto__": ["x"]}},
            {"type": "event", "event": {"job_id": {}, "kind": "log"}},
            {"type": "event", "at": "x", "event": {"job_id": "__proto__", "kind": "__proto__"}},
            {"type": "outcome", "job_id": []},
        ],
        ids=str,
    )
    async def test_odd_lines_of_a_transcript_are_skipped(
        self, modules: Page, odd: dict[str, Any]
    ) -> None:
        body = """
            const jobs = m.readTranscript(x).jobs;
            return jobs.map(({id, start}) => [typeof id, Object.values(start.lease ?? {})]);
        """
        job = {"type": "job", "job_id": "k", "lease": {"cost.budget": ["USD:1"]}}
        found = await run(modules, "transcript.js", body, self.lines(HEADER, odd, job))
        assert found[-1] == ["string", [["USD:1"]]]
        for kind, grants in found:
            assert kind == "string"
            assert all(isinstance(each, str) for grant in grants for each in grant)

    @pytest.mark.parametrize("text", ["", "hello", "[1]\n", '{"schema":"other/1"}\n'])
    async def test_a_file_that_is_no_transcript_is_refused(self, modules: Page, text: str) -> None:
        body = "try { m.readTranscript(x); return ''; } catch (e) { return e.message; }"
        assert await run(modules, "transcript.js", body, text)

    async def test_entries_are_played_when_they_are_due_and_seeking_back_starts_anew(
        self, modules: Page
    ) -> None:
        body = """
            const p = new m.Player([0, 1, 2, 3, 4].map((t) => ({t})));
            const due = (list) => list.map(({t}) => t);
            const out = [due(p.advance(9))];
            p.playing = true;
            p.speed = 2;
            out.push(due(p.advance(0.75)), due(p.advance(0.25)));
            const back = p.seek(0.5);
            out.push([back.fresh, due(back.entries)]);
            const on = p.seek(3);
            out.push([on.fresh, due(on.entries)]);
            out.push(due(p.advance(100)), p.playing);
            return out;
        """
        assert await run(modules, "player.js", body) == [
            [], [0, 1], [2], [True, [0]], [False, [1, 2, 3]], [4], False,
        ]  # fmt: skip

    async def test_the_state_of_a_recorded_job_equals_that_of_the_server(
        self, modules: Page
    ) -> None:
        """The same events through `JobProjection` and through the page's fold."""
        from datetime import UTC, datetime, timedelta
        from decimal import Decimal

        from arcp_client import Lease, events
        from arcp_client.projection import JobProjection

        start = datetime(2026, 1, 1, tzinfo=UTC)
        given: list[events.Event] = [
            events.Status(phase="reading", message="all of it"),
            events.Progress(current=1, total=4, units="files"),
            events.Metric(name="cost.inference", value=0.5, unit="USD"),
            events.Progress(current=2, units="tests", message="slow"),
            events.Metric(name="cost.budget.remaining", value=4.25, unit="USD"),
            events.Delegate(child_job_id="child", agent="b@1"),
            events.Metric(name="tokens", value=12),
            events.Failed(code="BUDGET_EXHAUSTED", message="spent"),
        ]
        stamped = [
            type(e)(**{f: getattr(e, f) for f in e.__struct_fields__}
                    | {"job_id": "j", "ts": start + timedelta(seconds=n)})
            for n, e in enumerate(given)
        ]  # fmt: skip
        projection = JobProjection("j", lease=Lease({"cost.budget": ["USD:5.00"]}))
        for event in stamped:
            projection.apply(event)
        mine = projection.to_dict()
        body = """
            const p = new m.Projection({job_id: 'j', lease: {'cost.budget': ['USD:5.00']}});
            for (const e of x) p.apply(e);
            return p.detail();
        """
        theirs = await run(modules, "projection.js", body, [e.to_dict() for e in stamped])
        for name in (
            "status",
            "phase",
            "message",
            "children",
            "counts",
            "events",
            "error",
            "lease",
        ):
            assert theirs[name] == mine[name], name
        for bar, expected in zip(theirs["progress"], mine["progress"], strict=True):
            assert bar == {name: expected[name] for name in bar}
        (meter,), (expected,) = theirs["meters"], mine["meters"]
        assert Decimal(str(meter["left"])) == Decimal(expected["left"])
        assert Decimal(str(meter["spent"])) == Decimal(expected["spent"])
        assert meter["rate"] == pytest.approx(expected["rate"])
        assert meter["seconds_left"] == pytest.approx(expected["seconds_left"])


class TestHelp:
    async def test_the_keys_of_the_dialog_are_those_of_the_docs(self, modules: Page) -> None:
        page = (ROOT / "docs" / "howto" / "dashboard.md").read_text(encoding="utf-8")
        documented = re.findall(r"^\| (\w+) \| `(.+)` \| (.+) \|$", page, re.MULTILINE)
        keys = await run(modules, "help.js", "return m.KEYS")
        assert documented == [(where, key, what) for where, each in keys for key, what in each]


class TestSource:
    """What no module may do: a string of an agent must have no way to become code or markup."""

    FORBIDDEN = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|DOMParser"
        r"|createContextualFragment|srcdoc|setHTML|setAttribute\(['\"](style|on)|javascript:"
        r"|\bimport\(|localStorage|sessionStorage|document\.cookie|https?://(?!www\.w3\.org/2000/svg)"
    )

    @pytest.mark.parametrize("path", sorted(STATIC.glob("*.js")), ids=lambda path: path.name)
    async def test_no_module_makes_markup_or_code_of_text(self, path: Path) -> None:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if path.name == "dom.js" and line.startswith("const REFUSED"):
                continue
            if path.name == "columns.js":  # remembers names of columns, and nothing of an agent
                line = line.replace("localStorage", "")
            assert not self.FORBIDDEN.search(line), f"{path.name}:{number}: {line.strip()}"

    async def test_the_page_has_no_inline_script_style_or_foreign_address(self) -> None:
        html = (STATIC / "index.html").read_text(encoding="utf-8")
        assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=|https?://", html)
        css = (STATIC / "app.css").read_text(encoding="utf-8")
        assert not re.search(r"@import|url\(", css)

    async def test_every_module_starts_with_its_purpose(self) -> None:
        for path in STATIC.glob("*.js"):
            first = path.read_text(encoding="utf-8").splitlines()[0]
            assert first.startswith("/** "), path.name
            assert first.endswith("*/"), path.name

    async def test_an_attribute_that_could_carry_code_is_refused(self, modules: Page) -> None:
        body = """
            const refused = [];
            for (const [name, value] of x) {
                try { m.el('a', {[name]: value}); } catch (e) { refused.push(name + '=' + value); }
            }
            return refused;
        """
        tries = [
            ["onclick", "x()"],
            ["style", "color: red"],
            ["src", "x.js"],
            ["srcdoc", "<b>"],
            ["href", "javascript:alert(1)"],
            ["href", "https://example.org/"],
            ["href", "//example.org/"],
        ]
        assert len(await run(modules, "dom.js", body, tries)) == len(tries)


class TestNumbers:
    @pytest.mark.parametrize("text", [*NUMBERS, "1e400", "01.5", "[1.0,-0]"])
    async def test_a_number_keeps_its_digits_through_reading_and_writing(
        self, modules: Page, text: str
    ) -> None:
        body = "try { return m.write(m.parse(x)); } catch (e) { return e.name; }"
        expected = "SyntaxError" if text == "01.5" else text
        assert await run(modules, "numbers.js", body, text) == expected
        if expected == text:
            nested = f'{{"a":[{text},"{text.replace(chr(34), "")}"],"b":"x: {NUMBERS[0]}"}}'
            assert await run(modules, "numbers.js", body, nested) == nested

    async def test_digits_are_shown_and_count_as_numbers(self, modules: Page) -> None:
        body = """return [
            m.pretty(m.parse(x)), m.preview(m.parse(x)), m.count(m.parse('3.0')),
            m.count(m.parse('9007199254740993')), m.bytes(m.parse('2048.0')),
            m.duration(m.parse('3.0')),
        ]"""
        script = """async ([x, body]) => {
            const m = {...await import('/text.js'), ...await import('/numbers.js')};
            return new Function('m', 'x', body)(m, x);
        }"""
        found = await modules.evaluate(script, [f'{{"n": [{", ".join(NUMBERS)}]}}', body])
        pretty, preview, *rest = found
        for text in NUMBERS:
            assert text in pretty
            assert text in preview
        assert rest == ["3", "9,007,199,254,740,993", "2 KiB", "3 s"]


async def test_what_is_paced_runs_in_the_next_frame_if_it_must(modules: Page) -> None:
    ran = await run(
        modules,
        "ticker.js",
        """
        const frames = (n) => new Promise((done) => {
            const step = (left) => requestAnimationFrame(() => (left ? step(left - 1) : done()));
            step(n);
        });
        return (async () => {
            const ran = [];
            let count = 0;
            const draw = m.paced(() => { count += 1; }, 1e9);
            for (const act of [draw, draw, draw.next, draw.next]) {
                act();
                await frames(2);
                ran.push(count);
            }
            draw();
            draw.next();
            draw.next();
            await frames(2);
            ran.push(count);
            draw.stop();
            draw.next();
            await frames(2);
            return [...ran, count];
        })();
        """,
    )
    assert ran == [1, 1, 2, 3, 4, 4]
