/** Compares two jobs side by side: how they are doing, what they cost, which tools they called. */

import { el, put, show } from './dom.js';
import { JobState } from './jobstate.js';
import { moneyLook } from './money.js';
import { jobHref, listHref } from './router.js';
import { fraction } from './rows.js';
import { ENDED, statusWord } from './status.js';
import { follow } from './stream.js';
import { count, duration, millis, oneLine, pretty } from './text.js';
import { everySecond, paced } from './ticker.js';

const FACTS = [
  ['Label', (d) => d.label ?? ''],
  ['Agent', (d) => `${d.agent ?? ''}${d.version ? `@${d.version}` : ''}`],
  ['Status', (d) => statusWord(d.status)],
  ['Failure', (d) => d.failure ?? ''],
  ['Duration', (d, now) => time(d, now)],
  ['Progress', (d) => (Array.isArray(d.progress) ? d.progress : []).map(fraction).join(', ')],
  ['Spent', (d) => [moneyLook(d).spent, moneyLook(d).counted].filter(Boolean).join(' · ')],
  ['Budget', (d) => moneyLook(d).left],
  ['Events', (d) => count(d.events ?? 0)],
  ['Tool calls', (d) => tools(d)],
  ['Failed calls', (d) => count((d.calls ?? []).filter((call) => call.failed).length)],
  ['Last event', (d) => d.last ?? ''],
  ['Summary', (d) => d.summary ?? ''],
];

export function compareView(route, { store, needLogin, page }) {
  const ids = [route.query.get('a') ?? '', route.query.get('b') ?? ''];
  const box = el('input', { type: 'text', id: 'compare-with', list: 'compare-jobs', autocomplete: 'off', spellcheck: 'false' });
  const offers = el('datalist', { id: 'compare-jobs' });
  const form = el('form', { class: 'filters', on: { submit: choose } },
    el('span', { class: 'field-inline grow' }, el('label', { for: 'compare-with' }, 'Compare with'), box), offers,
    el('button', { type: 'submit', class: 'button' }, 'Compare'));
  const failure = el('p', { class: 'panel tone-error foreign', role: 'alert', hidden: true });
  const heads = ids.map((id) => el('th', { scope: 'col' }, id ? el('a', { class: 'job foreign', href: jobHref(id) }, oneLine(id, 60)) : el('span', { class: 'muted' }, 'choose a job above')));
  const body = el('tbody');
  const results = ids.map(() => el('pre', { class: 'result foreign', tabindex: 0, 'aria-label': 'Result' }));
  const element = el('div', { class: 'page' },
    el('p', { class: 'back' }, el('a', { href: listHref() }, '← All jobs')),
    el('div', { class: 'page-head' }, el('h1', {}, 'Compare two jobs')), form, failure,
    el('div', { class: 'panel flush table-scroll', tabindex: 0, role: 'region', 'aria-label': 'Comparison' }, el('table', { class: 'compare' }, el('thead', {}, el('tr', {}, el('td'), heads)), body)),
    el('div', { class: 'columns' }, results.map((each, n) => el('section', { class: 'panel' }, el('h2', {}, `Result of the ${n ? 'second' : 'first'} job`), each))));
  const states = ids.map(() => new JobState({ rows: 200, bytes: 2 ** 20 }));
  const cells = FACTS.map(([name]) => {
    const pair = [el('td', { class: 'foreign' }), el('td', { class: 'foreign' })];
    const row = el('tr', {}, el('th', { scope: 'row' }, name), pair);
    body.append(row);
    return { row, pair };
  });

  function choose(event) {
    event.preventDefault();
    const other = box.value.trim();
    if (other) location.hash = `#/compare?${new URLSearchParams({ a: ids[0] || other, b: ids[0] ? other : '' })}`;
  }

  function offer() {
    offers.replaceChildren(...[...store.state.jobs.values()].slice(0, 500).filter((row) => row.job_id !== ids[0]).map((row) => el('option', { value: row.job_id }, oneLine(row.label ?? row.agent ?? '', 80))));
  }

  const draw = () => {
    const now = Date.now() + store.state.skew;
    FACTS.forEach(([, words], n) => {
      const texts = states.map((state) => (state.detail ? oneLine(words(state.detail, now), 400) : ''));
      cells[n].pair.forEach((cell, side) => put(cell, texts[side]));
      cells[n].row.classList.toggle('differs', texts[0] !== texts[1]);
      show(cells[n].row, texts.some(Boolean));
    });
    states.forEach((state, n) => {
      const stream = [...state.streams.byId.values()].at(-1);
      put(results[n], stream ? oneLine(stream.text, 40000) : state.value ? pretty(state.value.value, 20000) : 'No result yet.');
    });
  };
  const soon = paced(draw, 250);

  const streams = ids.map((id, n) => id && follow(`api/jobs/${encodeURIComponent(id)}/stream?tail=100`, {
    on: Object.fromEntries(['job', 'reset', 'events', 'end'].map((type) => [type, (data, bytes) => {
      states[n].take(type, data, bytes);
      if (type === 'end') streams[n].stop();
      soon();
    }])),
    state: page,
    refused({ status, error }) {
      if (status === 401) needLogin();
      else {
        put(failure, `${oneLine(id, 80)}: ${oneLine(error.message, 300)}`);
        show(failure, true);
        page('live');
      }
      return status >= 500 || status === 429;
    },
  }));
  offer();
  draw();
  const stops = [store.subscribe(offer), everySecond(draw), () => soon.stop(), ...streams.filter(Boolean).map((stream) => () => stream.stop())];
  return { title: 'Compare two jobs', element, stop: () => stops.forEach((stop) => stop()) };
}

function time(detail, now) {
  const from = millis(detail.created_at) ?? millis(detail.began_at);
  const to = ENDED.has(detail.status) ? millis(detail.ended_at) ?? millis(detail.last_at) : now;
  return from === null || to === null ? '' : duration(Math.max(0, to - from) / 1000);
}

function tools(detail) {
  const counts = new Map();
  for (const call of detail.calls ?? []) counts.set(call.tool, (counts.get(call.tool) ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1]).slice(0, 8).map(([name, n]) => `${name} ×${n}`).join(', ');
}
