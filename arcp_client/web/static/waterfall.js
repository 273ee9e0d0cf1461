/** Draws the tool calls and the delegated jobs of a job as bars over time. */

import { el, put, set, show } from './dom.js';
import { jobHref } from './router.js';
import { ENDED, statusWord } from './status.js';
import { duration, millis, oneLine, plural } from './text.js';

const MOST = 60;

/**
 * The bars of a job, oldest first: `[{name, from, to, tone, word, href, call}]`; `to` is null while it
 * runs. Pure. `children` are rows of the job list.
 */
export function spans(detail, children) {
  const found = [];
  for (const call of detail.calls ?? []) {
    const from = millis(call.began);
    if (from === null) continue;
    found.push({
      name: oneLine(call.tool, 60), from, to: call.running && !detail.ended ? null : millis(call.ended) ?? millis(detail.ended_at) ?? from,
      tone: call.failed ? 'error' : call.running ? 'run' : 'ok', word: call.failed ? 'failed' : call.running ? 'running' : 'done', href: null,
    });
  }
  for (const row of children) {
    const from = millis(row.created_at);
    if (from === null) continue;
    const over = ENDED.has(row.status);
    found.push({
      name: `${oneLine(row.agent || 'job', 60)}${row.label ? `: ${oneLine(row.label, 60)}` : ''}`, from, to: over ? millis(row.ended_at) ?? from : null,
      tone: row.status === 'error' || row.status === 'lost' ? 'error' : over ? 'child' : 'run', word: statusWord(row.status), href: jobHref(row.job_id),
    });
  }
  return found.sort((a, b) => a.from - b.from).slice(-MOST);
}

/** The panel. `update(detail, children)` on new facts, `tick(now)` each second. */
export function waterfall() {
  const list = el('ol', { class: 'waterfall', role: 'list' });
  const axis = el('p', { class: 'axis muted', 'aria-hidden': 'true' }, el('span'), el('span'));
  const count = el('span', { class: 'shown' });
  const element = el('section', { class: 'panel', 'aria-labelledby': 'waterfall-title', hidden: true },
    el('div', { class: 'panel-head' }, el('h2', { id: 'waterfall-title' }, 'Tool calls and delegated jobs'), count), list, axis);
  let bars = [];
  let begin = null;
  let end = null;
  const made = [];

  function draw(now) {
    if (!bars.length) return;
    const from = Math.min(begin ?? Infinity, bars[0].from);
    const until = Math.max(end ?? now, ...bars.map((bar) => bar.to ?? now), from + 1000);
    const share = (at) => `${(100 * (at - from)) / (until - from)}%`;
    while (made.length > bars.length) made.pop().element.remove();
    while (made.length < bars.length) {
      const one = bar();
      made.push(one);
      list.append(one.element);
    }
    bars.forEach((each, n) => made[n].update(each, share, from, now));
    put(axis.firstChild, new Date(from).toLocaleTimeString());
    put(axis.lastChild, `${duration((until - from) / 1000)} later`);
  }

  return {
    element,
    update(detail, children, now) {
      bars = spans(detail, children);
      begin = millis(detail.began_at);
      end = detail.ended ? millis(detail.ended_at) : null;
      show(element, bars.length > 0);
      put(count, plural(bars.length, 'bar'));
      draw(now);
    },
    tick: draw,
  };
}

function bar() {
  const name = el('span', { class: 'bar-name foreign' });
  const track = el('span', { class: 'lane', 'aria-hidden': 'true' }, el('span', { class: 'span' }));
  const words = el('span', { class: 'bar-text' });
  const element = el('li', {}, name, track, words);
  let href = null;
  return {
    element,
    update(each, share, from, now) {
      if (each.href !== href) {
        href = each.href;
        name.replaceChildren(href ? el('a', { href }) : el('span'));
      }
      if (!name.firstChild) name.append(el('span'));
      put(name.firstChild, each.name);
      const fill = track.firstChild;
      fill.style.setProperty('inset-inline-start', share(each.from));
      fill.style.setProperty('inset-inline-end', `calc(100% - ${share(each.to ?? now)})`);
      set(fill, 'class', `span tone-${each.tone}`);
      put(words, `${each.word}, ${duration(Math.max(0, (each.to ?? now) - each.from) / 1000)}`);
      set(element, 'title', `after ${duration((each.from - from) / 1000)}`);
    },
  };
}
