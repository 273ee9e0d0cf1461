/** Shows the job list as a table that the user can filter and sort. */

import { bar } from './bars.js';
import { el, icon, put, set, show } from './dom.js';
import { jobHref } from './router.js';
import { ENDED, statusBadge, statusWord } from './status.js';
import { COLUMNS, arrange, share } from './table.js';
import { everySecond } from './ticker.js';
import { count, duration, millis, oneLine, plural } from './text.js';

const PAGE = 200;
const chosen = { text: '', status: '', sort: 'age', descending: false, nest: true };   // kept while one looks at a job

export function jobsView({ store }) {
  let most = PAGE;
  const rows = new Map();
  const text = el('input', { type: 'search', id: 'jobs-text', autocomplete: 'off', spellcheck: 'false', placeholder: 'Job, agent or phase', on: { input: () => choose({ text: text.value }) } });
  const status = el('select', { id: 'jobs-status', on: { change: () => choose({ status: status.value }) } },
    [['', 'any'], ['active', 'active'], ...['pending', 'running', 'success', 'error', 'cancelled', 'timed_out', 'lost'].map((s) => [s, statusWord(s)])]
      .map(([value, label]) => el('option', { value }, label)));
  const nest = el('input', { type: 'checkbox', id: 'jobs-nest', on: { change: () => choose({ nest: nest.checked }) } });
  text.value = chosen.text;
  status.value = chosen.status;
  nest.checked = chosen.nest;

  const heads = COLUMNS.map(({ key, label }) => {
    const button = el('button', { type: 'button', class: 'sort', on: { click: () => choose({ sort: key, descending: chosen.sort === key ? !chosen.descending : false }) } },
      label, el('span', { class: 'sort-mark', 'aria-hidden': 'true' }));
    return { key, button, cell: el('th', { scope: 'col', role: 'columnheader', class: `col-${key}` }, button) };
  });
  const body = el('tbody', { role: 'rowgroup' });
  const table = el('table', { class: 'jobs', role: 'table', 'aria-labelledby': 'jobs-title' },
    el('thead', { role: 'rowgroup' }, el('tr', { role: 'row' }, heads.map(({ cell }) => cell))), body);
  const empty = el('p', { class: 'empty', hidden: true });
  const total = el('span', { class: 'shown', id: 'jobs-count' });
  const more = el('button', { type: 'button', class: 'button', hidden: true, on: { click: () => { most += PAGE; draw(); } } });
  const truncated = el('p', { class: 'note', hidden: true }, 'The runtime has more jobs than this table: a client program can list them all.');
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
    el('div', { class: 'page-head' }, el('h1', { id: 'jobs-title' }, 'Jobs'), total),
    failure,
    el('div', { class: 'filters', role: 'search', 'aria-label': 'Jobs' },
      el('span', { class: 'field-inline grow' }, el('label', { for: 'jobs-text' }, 'Find'), text),
      el('span', { class: 'field-inline' }, el('label', { for: 'jobs-status' }, 'Status'), status),
      el('label', { class: 'check' }, nest, el('span', {}, 'Children below their parents'))),
    el('div', { class: 'panel flush' }, table, empty),
    el('p', { class: 'buttons' }, more),
    truncated);

  function choose(change) {
    Object.assign(chosen, change);
    most = PAGE;
    draw();
  }

  function draw() {
    const state = store.state;
    show(failure, state.phase === 'failed');
    if (state.phase === 'failed' && state.error) {
      failure.replaceChildren(el('p', { class: 'foreign' }, el('strong', {}, oneLine(state.error.code, 60)), ' ', oneLine(state.error.message, 300)),
        el('p', { class: 'foreign' }, oneLine(state.error.remedy ?? '', 300)));
    }
    for (const { key, button, cell } of heads) {
      const sorted = chosen.sort === key;
      set(cell, 'aria-sort', sorted ? (chosen.descending ? 'descending' : 'ascending') : null);
      put(button.lastChild, sorted ? (chosen.descending ? '▼' : '▲') : '');
    }
    const all = arrange(state.jobs, chosen);
    const window = all.slice(0, most);
    const wanted = new Set(window.map(({ row }) => row.job_id));
    const focused = body.contains(document.activeElement) ? document.activeElement : null;
    for (const [id, made] of rows) {
      if (!wanted.has(id)) {
        made.element.remove();
        rows.delete(id);
      }
    }
    let place = body.firstChild;
    for (const { row, depth } of window) {
      let made = rows.get(row.job_id);
      if (!made) {
        made = jobRow(row.job_id);
        rows.set(row.job_id, made);
      }
      made.update(row, depth);
      if (made.element === place) place = place.nextSibling;
      else body.insertBefore(made.element, place);
    }
    if (focused && focused !== document.activeElement) {
      if (focused.isConnected) focused.focus({ preventScroll: true });    // moving a row took it away
      else table.querySelector('a.job, .sort')?.focus({ preventScroll: true });
    }
    show(table, window.length > 0);
    show(empty, window.length === 0);
    put(empty, state.phase === 'loading' ? 'Loading…' : state.jobs.size ? 'No job matches the filter.' : 'No jobs yet.');
    const known = state.jobs.size;
    show(truncated, state.truncated);
    put(total, all.length === known ? plural(known, 'job') : `${count(all.length)} of ${plural(known, 'job')}`);
    show(more, all.length > most);
    put(more, `Show ${count(Math.min(PAGE, all.length - most))} more`);
    ages();
  }

  function ages() {
    const now = Date.now() + store.state.skew;
    for (const made of rows.values()) made.age(now);
  }

  draw();
  const stops = [store.subscribe(draw), everySecond(ages)];
  return { title: 'Jobs', element, stop: () => stops.forEach((stop) => stop()) };
}

function jobRow(id) {
  const link = el('a', { class: 'job foreign', href: jobHref(id) }, oneLine(id, 120));
  const mark = el('span', { class: 'nesting' }, icon('child'), el('span', { class: 'visually-hidden' }));
  const parent = el('span', { class: 'sub foreign' });
  const badge = statusBadge('');
  const phase = el('span', { class: 'sub foreign' });
  const agent = el('span', { class: 'agent foreign' });
  const version = el('span', { class: 'version foreign' });
  const progress = bar('progressbar', `Progress of ${oneLine(id, 60)}`);
  const age = el('span');
  const ended = el('span', { class: 'sub' });
  const cell = (key, label, ...content) => el('td', { role: 'cell', class: `col-${key}` }, el('span', { class: 'cell-label', 'aria-hidden': 'true' }, label), el('span', { class: 'cell' }, content));
  const element = el('tr', { role: 'row' },
    cell('job', 'Job', mark, link, parent),
    cell('status', 'Status', badge, phase),
    cell('agent', 'Agent', el('span', { class: 'nowrap' }, agent, version)),
    cell('progress', 'Progress', progress.element),
    cell('age', 'Time', age, ended));
  let created = null;
  let until = null;
  let over = false;

  return {
    element,
    update(row, depth) {
      set(element, 'data-job', row.job_id);
      element.style.setProperty('--depth', String(Math.min(depth, 6)));
      set(element, 'class', depth ? 'child' : null);
      show(mark, Boolean(depth));
      put(mark.lastChild, depth ? `child of ${oneLine(row.parent_job_id, 120)}: ` : '');
      const lonely = row.parent_job_id && !depth;
      put(parent, lonely ? `child of ${oneLine(row.parent_job_id, 60)}` : '');
      show(parent, lonely);
      badge.update(row.status);
      over = ENDED.has(row.status);
      put(phase, over ? why(row) : oneLine(row.phase ?? '', 60));
      const { name, at } = splitAgent(row);
      put(agent, oneLine(name, 60));
      put(version, at ? `@${oneLine(at, 30)}` : '');
      const p = row.progress;
      const part = share(row);
      show(progress.element, Boolean(p));
      if (p) {
        const units = p.units ? ` ${oneLine(p.units, 16)}` : '';
        progress.update({
          share: part,
          words: part === null ? `${count(p.current)}${units}` : `${count(p.current)} / ${count(p.total)}${units}`,
          tone: over ? 'done' : 'plain',
        });
        set(progress.element.querySelector('[role]'), 'aria-label', `Progress of ${oneLine(id, 60)}`);
      }
      created = millis(row.created_at);
      until = millis(row.ended_at);
      set(age, 'title', created === null ? null : `since ${new Date(created).toLocaleString()}`);
      set(ended, 'title', until === null ? null : new Date(until).toLocaleString());
    },
    age(now) {
      const to = over ? until : now;
      const ran = created === null || to === null ? null : Math.max(0, to - created) / 1000;
      put(age, ran === null ? '–' : over ? `took ${duration(ran)}` : duration(Math.floor(ran)));
      put(ended, over ? moment(until ?? created, until === null ? 'began' : 'ended', now) : '');
    },
  };
}

/** Why a job did not end well, in a line. */
function why(row) {
  if (row.status === 'lost') return 'the runtime no longer knows it';
  return row.status === 'success' ? '' : oneLine(row.reason ?? '', 160);
}

/** "ended 14:03", or with its day if that is not today; empty if it is not known when. */
function moment(at, word, now) {
  if (at === null) return '';
  const date = new Date(at);
  const today = date.toDateString() === new Date(now).toDateString();
  const when = today ? date.toLocaleTimeString([], { timeStyle: 'short' }) : date.toLocaleString([], { dateStyle: 'medium', timeStyle: 'short' });
  return `${word} ${when}`;
}

/** The name and the version of an agent; a runtime may give them as one. */
export function splitAgent(row) {
  const text = String(row.agent ?? '');
  const at = text.lastIndexOf('@');
  if (at > 0) return { name: text.slice(0, at), at: text.slice(at + 1) };
  return { name: text, at: row.version ?? null };
}
