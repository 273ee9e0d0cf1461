/** Shows the job list as a table that the user can filter, sort and select from. */

import { columnChooser } from './columns.js';
import { el, put, set, show } from './dom.js';
import { jobRow } from './jobrow.js';
import { keepListHref } from './router.js';
import { selectionBar } from './selection.js';
import { ENDED, statusWord } from './status.js';
import { send } from './stream.js';
import { COLUMNS, DEFAULTS, SINCE, arrange, counts, fromQuery, toQuery } from './table.js';
import { everySecond, paced } from './ticker.js';
import { count, oneLine, plural } from './text.js';

const PAGE = 200;
const VISIBLE_EVERY = 10;                    // seconds between two messages about what is visible
const STATUSES = [
  ['', 'All'], ['look', 'Needs attention'], ['running', 'running'], ['pending', 'pending'], ['success', 'success'],
  ['error', 'error'], ['cancelled', 'cancelled'], ['timed_out', 'timed out'], ['lost', 'lost'],
];

export function jobsView(route, { store, announcer }) {
  let chosen = fromQuery(route.query);
  let most = PAGE;
  const rows = new Map();
  const dirty = new Map();                   // rows out of sight are drawn when they come into it
  const visible = new Set();
  const sight = new IntersectionObserver(seen, { rootMargin: '200px' });

  const text = el('input', { type: 'search', id: 'jobs-text', autocomplete: 'off', spellcheck: 'false', placeholder: 'Label, id, agent, phase or event', on: { input: () => choose({ text: text.value }) } });
  const agent = el('select', { id: 'jobs-agent', on: { change: () => choose({ agent: agent.value }) } });
  const since = el('select', { id: 'jobs-since', on: { change: () => choose({ since: since.value }) } },
    [...SINCE].map(([value, [label]]) => el('option', { value }, label)));
  const nest = el('input', { type: 'checkbox', id: 'jobs-nest', on: { change: () => choose({ nest: nest.checked }) } });
  const statuses = STATUSES.map(([value, label]) => {
    const number = el('span', { class: 'count' });
    const button = el('button', { type: 'button', class: 'status-filter', 'data-status': value, on: { click: () => choose({ status: value }) } }, value ? label : 'All', ' ', number);
    return { value, button, number };
  });

  const heads = COLUMNS.map(({ key, label }) => {
    const button = el('button', { type: 'button', class: 'sort', on: { click: () => choose({ sort: key, descending: chosen.sort === key ? !chosen.descending : false }) } },
      label, el('span', { class: 'sort-mark', 'aria-hidden': 'true' }));
    return { key, button, cell: el('th', { scope: 'col', role: 'columnheader', class: `col-${key}` }, button) };
  });
  const body = el('tbody', { role: 'rowgroup' });
  const selection = selectionBar({ store, announcer, shown: () => arrange(store.state.jobs, chosen, now()).map(({ row }) => row), changed: drawPicks });
  const table = el('table', { class: 'jobs', role: 'table', 'aria-labelledby': 'jobs-title' },
    el('thead', { role: 'rowgroup' }, el('tr', { role: 'row' }, el('th', { scope: 'col', role: 'columnheader', class: 'col-pick' }, selection.all), heads.map(({ cell }) => cell))), body);
  const clear = el('button', { type: 'button', class: 'button', on: { click: () => choose({ ...DEFAULTS }) } }, 'Show all jobs');
  const words = el('p');
  const hint = el('p', { class: 'muted' });
  const empty = el('div', { class: 'empty', hidden: true }, words, hint, el('p', { class: 'buttons' }, clear));
  const total = el('span', { class: 'shown', id: 'jobs-count' });
  const more = el('button', { type: 'button', class: 'button', hidden: true, on: { click: () => { most += PAGE; draw(); } } });
  const truncated = el('p', { class: 'note', hidden: true }, 'The runtime has more jobs than this table. In a terminal, ', el('code', {}, 'arcp-client jobs'), ' lists them all.');
  const partly = el('p', { class: 'note', hidden: true });
  const failure = el('div', { class: 'panel tone-error', role: 'alert', hidden: true });

  body.addEventListener('keydown', (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || event.ctrlKey || event.metaKey || event.altKey) return;
    const links = [...body.querySelectorAll('a.job')];
    const at = links.indexOf(document.activeElement);
    if (at < 0) return;
    event.preventDefault();
    links[Math.max(0, Math.min(links.length - 1, at + step))].focus();
  });

  const element = el('div', { class: 'page' },
    el('div', { class: 'page-head' }, el('h1', { id: 'jobs-title' }, 'Jobs'), total, el('span', { class: 'grow' }), columnChooser(table)),
    failure,
    el('div', { class: 'statuses', role: 'group', 'aria-label': 'Status' }, statuses.map(({ button }) => button)),
    el('div', { class: 'filters', role: 'search', 'aria-label': 'Jobs' },
      el('span', { class: 'field-inline grow' }, el('label', { for: 'jobs-text' }, 'Find'), text),
      el('span', { class: 'field-inline' }, el('label', { for: 'jobs-agent' }, 'Agent'), agent),
      el('span', { class: 'field-inline' }, el('label', { for: 'jobs-since' }, 'Time'), since),
      el('label', { class: 'check' }, nest, el('span', {}, 'Children below their parents'))),
    selection.element,
    el('div', { class: 'panel flush list' }, table, empty),
    el('p', { class: 'buttons' }, more),
    partly, truncated);

  const now = () => Date.now() + store.state.skew;

  function choose(change) {
    chosen = { ...chosen, ...change };
    most = PAGE;
    const query = toQuery(chosen);
    history.replaceState(history.state, '', query ? `#/?${query}` : '#/');
    keepListHref(location.hash);
    controls();
    draw();
  }

  function controls() {
    if (text.value !== chosen.text) text.value = chosen.text;
    agent.value = chosen.agent;
    since.value = chosen.since;
    nest.checked = chosen.nest;
  }

  let offered = '';
  function offerAgents(jobs) {
    const names = [...new Set([...[...jobs.values()].map((row) => row.agent).filter(Boolean), ...(chosen.agent ? [chosen.agent] : [])])].sort();
    const known = JSON.stringify(names);
    if (known === offered) return;
    offered = known;
    agent.replaceChildren(el('option', { value: '' }, 'any'), ...names.map((name) => el('option', { value: name }, oneLine(name, 60))));
    agent.value = chosen.agent;
  }

  function seen(entries) {
    for (const { target, isIntersecting } of entries) {
      const id = target.dataset.job;
      if (!isIntersecting) {
        visible.delete(id);
        continue;
      }
      visible.add(id);
      const late = dirty.get(id);
      if (late) {
        dirty.delete(id);
        rows.get(id)?.update(late.row, late.depth, now());
      } else rows.get(id)?.age(now());
    }
  }

  function drawPicks() {
    for (const [id, made] of rows) made.pick(selection.has(id));
  }

  function drawFailure(state) {
    show(failure, state.phase === 'failed');
    if (state.phase !== 'failed' || !state.error) return;
    failure.replaceChildren(el('p', { class: 'foreign' }, el('strong', {}, oneLine(state.error.message, 300))),
      el('p', { class: 'foreign' }, oneLine(state.error.remedy || 'Load the page again. If that does not help, look at the log of the dashboard’s server.', 300)),
      el('p', { class: 'muted foreign' }, oneLine(state.error.code, 60)));
  }

  function drawEmpty(state, shown) {
    show(table, shown > 0);
    show(empty, shown === 0);
    const filtered = state.jobs.size > 0;
    put(words, state.phase === 'loading' ? 'Loading…' : filtered ? 'No job matches the filter.' : 'No jobs yet.');
    put(hint, state.phase === 'loading' || filtered ? '' : state.control
      ? 'Submit one above, or in a terminal with “arcp-client run AGENT”. Jobs of other sessions with the same token appear here too.'
      : 'Submit one in a terminal with “arcp-client run AGENT”. Jobs of other sessions with the same token appear here too.');
    show(clear, filtered);
  }

  function draw() {
    const state = store.state;
    drawFailure(state);
    for (const { key, button, cell } of heads) {
      const sorted = chosen.sort === key;
      set(cell, 'aria-sort', sorted ? (chosen.descending ? 'descending' : 'ascending') : null);
      put(button.lastChild, sorted ? (chosen.descending ? '▼' : '▲') : '');
    }
    offerAgents(state.jobs);
    const numbers = counts(state.jobs, chosen, now());
    for (const { value, button, number } of statuses) {
      const n = numbers.get(value);
      put(number, count(n));
      set(button, 'aria-pressed', chosen.status === value ? 'true' : 'false');
      set(button, 'class', `status-filter${value === 'look' && n ? ' tone-warn' : ''}`);
      show(button, n > 0 || chosen.status === value || value === '' || value === 'running' || value === 'look');
    }
    const all = arrange(state.jobs, chosen, now());
    drawRows(all.slice(0, most));
    drawEmpty(state, Math.min(all.length, most));
    const known = state.jobs.size;
    const unwatched = [...state.jobs.values()].filter((row) => row.followed === false && !ENDED.has(row.status)).length;
    show(truncated, state.truncated);
    show(partly, unwatched > 0 && state.phase === 'ready');
    put(partly, `${plural(unwatched, 'running job')} ${unwatched === 1 ? 'is' : 'are'} listed without events: the dashboard follows 250 at a time, those in sight first.`);
    put(total, all.length === known ? plural(known, 'job') : `${count(all.length)} of ${plural(known, 'job')}`);
    show(more, all.length > most);
    put(more, `Show ${count(Math.min(PAGE, all.length - most))} more`);
    selection.update(state);
  }

  function drawRows(window) {
    const wanted = new Set(window.map(({ row }) => row.job_id));
    const focused = body.contains(document.activeElement) ? document.activeElement : null;
    for (const [id, made] of rows) {
      if (wanted.has(id)) continue;
      sight.unobserve(made.element);
      made.element.remove();
      rows.delete(id);
      visible.delete(id);
      dirty.delete(id);
    }
    let place = body.firstChild;
    for (const { row, depth } of window) {
      let made = rows.get(row.job_id);
      const fresh = !made;
      if (fresh) {
        made = jobRow(row.job_id, { picked: selection.pick });
        made.pick(selection.has(row.job_id));
        rows.set(row.job_id, made);
      }
      if (fresh || made.drawn !== row || made.depth !== depth) {
        made.drawn = row;
        made.depth = depth;
        if (fresh || visible.has(row.job_id)) made.update(row, depth, now());
        else dirty.set(row.job_id, { row, depth });
      }
      if (made.element === place) place = place.nextSibling;
      else body.insertBefore(made.element, place);
      if (fresh) sight.observe(made.element);
    }
    if (focused && focused !== document.activeElement) {
      if (focused.isConnected) focused.focus({ preventScroll: true });    // moving a row took it away
      else table.querySelector('a.job, .sort')?.focus({ preventScroll: true });
    }
  }

  let ticks = 0;
  let told = '';
  function tick() {
    const at = now();
    for (const id of visible) if (!dirty.has(id)) rows.get(id)?.age(at);
    ticks += 1;
    if (document.hidden) return;
    const running = [...visible].filter((id) => !ENDED.has(store.state.jobs.get(id)?.status)).sort().slice(0, 100);
    const sent = running.join(' ');
    if (running.length && (sent !== told ? ticks % 2 === 0 : ticks % VISIBLE_EVERY === 0) && store.state.jobs.size > 200) {
      told = sent;
      send('api/visible', { jobs: running }).catch(() => {});    // only rows out of the bound are late then
    }
  }

  const drawSoon = paced(draw, 200);
  keepListHref(location.hash);
  controls();
  draw();
  const stops = [store.subscribe(drawSoon), everySecond(tick), () => drawSoon.stop(), () => sight.disconnect()];
  return { title: 'Jobs', element, stop: () => stops.forEach((stop) => stop()) };
}
