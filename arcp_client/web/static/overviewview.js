/** Shows all jobs together: how many a minute, how many fail, what they cost, and the connection. */

import { el, put, set, show } from './dom.js';
import { jobHref } from './router.js';
import { shortId } from './jobrow.js';
import { needsLook } from './table.js';
import { ENDED } from './status.js';
import { everySecond, paced } from './ticker.js';
import { clock, count, duration, millis, oneLine, plural } from './text.js';
import { MINUTES, agents, minutes } from './trends.js';

const MOST_AGENTS = 50;
const amount = new Intl.NumberFormat('en', { maximumFractionDigits: 2 });
const LINKS = { __proto__: null, live: 'connected', connecting: 'connecting', reconnecting: 'connection lost', closed: 'closed' };

export function overviewView({ store }) {
  const tiles = ['Running now', 'Need attention', 'Failed, of those that ended', 'Events received'].map((name) => {
    const value = el('span', { class: 'tile-value' });
    return { value, element: el('div', { class: 'panel tile' }, el('h2', {}, name), value) };
  });
  const charts = [
    chart('Jobs a minute', (minute) => minute.began, (n) => count(n)),
    chart('Failures a minute', (minute) => minute.failed, (n) => count(n)),
  ];
  const spending = el('div', { class: 'columns' });
  const spent = new Map();
  const body = el('tbody');
  const table = el('table', { class: 'plain-table' },
    el('thead', {}, el('tr', {}, ['Agent', 'Jobs', 'Running', 'Failed', 'Median time', 'Longest', 'Spent'].map((name) => el('th', { scope: 'col' }, name)))), body);
  const history = el('ol', { class: 'history', role: 'list' });
  const none = el('p', { class: 'empty' }, 'No jobs yet: there is nothing to count.');
  const numbers = el('div', { class: 'page' },
    el('div', { class: 'columns' }, charts.map(({ element }) => element)), spending,
    el('section', { class: 'panel', 'aria-labelledby': 'agents-title' }, el('h2', { id: 'agents-title' }, 'Agents, the slowest first'),
      el('div', { class: 'table-scroll', tabindex: 0, role: 'region', 'aria-label': 'Agents' }, table)));
  const element = el('div', { class: 'page' },
    el('div', { class: 'page-head' }, el('h1', {}, 'Overview'), el('span', { class: 'shown' }, `the last ${MINUTES} minutes, and all jobs of the list`)),
    el('div', { class: 'tiles' }, tiles.map((tile) => tile.element)), numbers, none,
    el('section', { class: 'panel', 'aria-labelledby': 'history-title' }, el('h2', { id: 'history-title' }, 'Connection to the runtime'), history));
  let drawn = '';

  function draw() {
    const { jobs, link } = store.state;
    const now = Date.now() + store.state.skew;
    const rows = [...jobs.values()];
    const ended = rows.filter((row) => ENDED.has(row.status));
    const bad = ended.filter((row) => row.status !== 'success' && row.status !== 'cancelled').length;
    put(tiles[0].value, count(rows.length - ended.length));
    put(tiles[1].value, count(rows.filter((row) => needsLook(row) && !ENDED.has(row.status)).length));
    put(tiles[2].value, ended.length ? `${Math.round((100 * bad) / ended.length)} % (${count(bad)} of ${count(ended.length)})` : '–');
    put(tiles[3].value, link ? `${count(link.received)}${link.reconnects ? `, ${plural(link.reconnects, 'reconnection')}` : ''}` : '–');
    show(numbers, rows.length > 0);
    show(none, rows.length === 0);
    const lately = minutes(jobs, now);
    for (const each of charts) each.update(lately);
    const currencies = new Set(lately.flatMap((minute) => [...minute.spent.keys()]));
    for (const currency of currencies) {
      if (!spent.has(currency) && spent.size < 6) {
        const one = chart(`Spent a minute, in ${oneLine(currency, 16)}`, (minute) => minute.spent.get(currency) ?? 0, (n) => amount.format(n));
        spent.set(currency, one);
        spending.append(one.element);
      }
    }
    for (const one of spent.values()) one.update(lately);
    const found = agents(jobs, now).slice(0, MOST_AGENTS);
    body.replaceChildren(...found.map((one) => el('tr', {},
      el('th', { scope: 'row', class: 'foreign' }, oneLine(one.agent, 60)),
      el('td', {}, count(one.jobs)), el('td', {}, count(one.running)),
      el('td', {}, one.ended ? `${count(one.failed)} (${Math.round((100 * one.failed) / one.ended)} %)` : '–'),
      el('td', {}, one.median === null ? '–' : duration(one.median)),
      el('td', {}, one.longest ? [el('a', { class: 'job foreign', href: jobHref(one.longest.row.job_id) }, oneLine(one.longest.row.label ?? shortId(one.longest.row.job_id), 60)), ` ${duration(Math.floor(one.longest.seconds))}`] : '–'),
      el('td', {}, [...one.spent].map(([currency, much]) => `${amount.format(much)} ${oneLine(currency, 12)}`).join(', ') || '–'))));
    const told = JSON.stringify(link?.history ?? []);
    if (told === drawn) return;
    drawn = told;
    history.replaceChildren(...[...(link?.history ?? [])].reverse().map(({ at, state, cause, resumed, gap }) => el('li', {},
      el('span', { class: 'time' }, clock(millis(at)).slice(0, 8)), ' ',
      el('span', {}, gap ? 'events were lost' : `${LINKS[state] ?? oneLine(state, 20)}${resumed ? ', nothing was missed' : ''}`),
      cause ? el('span', { class: 'muted foreign' }, ` ${oneLine(cause, 200)}`) : null)));
  }

  const soon = paced(draw, 1000);
  draw();
  const stops = [store.subscribe(soon), everySecond(() => soon()), () => soon.stop()];
  return { title: 'Overview', element, stop: () => stops.forEach((stop) => stop()) };
}

/** A small bar chart of the minutes, with its numbers as a text. */
function chart(name, value, words) {
  const bars = Array.from({ length: MINUTES }, () => el('span', { class: 'column' }));
  const box = el('div', { class: 'chart', role: 'img' }, bars);
  const text = el('p', { class: 'muted' });
  const element = el('section', { class: 'panel' }, el('h2', {}, name), box, text);
  return {
    element,
    update(lately) {
      const values = lately.map(value);
      const most = Math.max(...values);
      values.forEach((each, n) => bars[n].style.setProperty('block-size', most > 0 ? `${Math.max(each > 0 ? 6 : 2, (100 * each) / most)}%` : '2%'));
      const sum = values.reduce((a, b) => a + b, 0);
      const said = `${words(values.at(-1))} in the last minute, at most ${words(most)}, ${words(sum)} in ${MINUTES} minutes`;
      put(text, said);
      set(box, 'aria-label', `${name}: ${said}`);
    },
  };
}
