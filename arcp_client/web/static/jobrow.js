/** Shows one job as a row of the job list. */

import { bar } from './bars.js';
import { el, icon, put, set, show } from './dom.js';
import { moneyLook } from './money.js';
import { reasonLook, reasonWords, span } from './reasons.js';
import { jobHref } from './router.js';
import { ENDED, standing, statusBadge } from './status.js';
import { needsLook, share } from './table.js';
import { count, duration, millis, oneLine } from './text.js';

const SHORT = 8;

/** The end of an id, which tells it from others that began at the same time. */
export function shortId(id) {
  const text = String(id);
  return text.length <= SHORT + 4 ? oneLine(text, 40) : `…${oneLine(text.slice(-SHORT), 40)}`;
}

/** A row. `update(row, depth, now)` draws a job, `age(now)` brings its times up to date. */
export function jobRow(id, { picked }) {
  const box = el('input', { type: 'checkbox', class: 'pick', 'aria-label': `Select ${oneLine(id, 120)}`, on: { change: () => picked(id, box.checked) } });
  const link = el('a', { class: 'job foreign', href: jobHref(id) });
  const short = el('span', { class: 'sub foreign' });
  const mark = el('span', { class: 'nesting' }, icon('child'), el('span', { class: 'visually-hidden' }));
  const parent = el('span', { class: 'sub foreign' });
  const badge = statusBadge('');
  const why = el('span', { class: 'why foreign' });
  const whyIcon = el('span', { class: 'slot' });
  const reason = el('span', { class: 'reason', hidden: true }, whyIcon, why);
  const answer = el('a', { class: 'answer', href: jobHref(id), hidden: true, 'aria-label': `Answer ${oneLine(id, 120)}` }, 'Answer');
  const phase = el('span', { class: 'sub foreign' });
  const agent = el('span', { class: 'agent foreign' });
  const version = el('span', { class: 'version foreign' });
  const progress = bar('progressbar', `Progress of ${oneLine(id, 60)}`);
  const last = el('span', { class: 'last foreign' });
  const ago = el('span', { class: 'sub' });
  const gauge = bar('meter', `Budget of ${oneLine(id, 60)}`);
  const spent = el('span', { class: 'spent foreign' });
  const tokens = el('span', { class: 'sub foreign' });
  const time = el('span');
  const ended = el('span', { class: 'sub' });
  const cell = (key, label, ...content) => el('td', { role: 'cell', class: `col-${key}` }, el('span', { class: 'cell-label', 'aria-hidden': 'true' }, label), el('span', { class: 'cell' }, content));
  const element = el('tr', { role: 'row', 'data-job': id },
    el('td', { role: 'cell', class: 'col-pick' }, box),
    cell('job', 'Job', mark, link, short, parent),
    cell('status', 'State', badge, phase, reason, answer),
    cell('agent', 'Agent', el('span', { class: 'nowrap' }, agent, version)),
    cell('progress', 'Progress', progress.element),
    cell('last', 'Last event', last, ago),
    cell('money', 'Cost and budget', spent, gauge.element, tokens),
    cell('age', 'Time', time, ended));
  let row = null;
  let over = false;
  let reasonIcon = '';

  function drawProgress(now) {
    const p = row.progress;
    show(progress.element, Boolean(p));
    if (!p) return;
    const units = p.units ? ` ${oneLine(p.units, 16)}` : '';
    const part = share(row);
    const due = over ? null : millis(row.due_at);
    const left = due === null || part === 1 || due <= now ? '' : `, ${span((due - now) / 1000)} left`;
    progress.update({
      share: part,
      words: (part === null ? `${count(p.current)}${units}` : `${count(p.current)} / ${count(p.total)}${units}`) + left,
      tone: over ? 'done' : 'plain',
    });
    set(progress.element.querySelector('[role]'), 'aria-label', `Progress of ${oneLine(id, 60)}`);
  }

  function drawMoney() {
    const { share: part, left, spent: much, counted, tone } = moneyLook(row);
    show(gauge.element, part !== null);
    if (part !== null) gauge.update({ share: part, words: oneLine(left, 60), tone: over ? 'done' : tone });
    set(gauge.element.querySelector('[role]'), 'aria-label', `Budget of ${oneLine(id, 60)}`);
    put(spent, oneLine(much, 80));
    put(tokens, oneLine(counted, 80));
  }

  function drawReason(now) {
    const found = row.reason;
    show(reason, Boolean(found));
    if (!found) return;
    const { tone, icon: shape } = reasonLook(found);
    put(why, found.code === 'failed' ? oneLine(row.failure ?? found.text, 160) : reasonWords(found, now));
    set(reason, 'class', `reason tone-${tone}`);
    if (shape !== reasonIcon) {
      reasonIcon = shape;
      whyIcon.replaceChildren(icon(shape));
    }
  }

  return {
    element,
    link,
    /** Whether the row is selected. */
    pick(is) {
      if (box.checked !== is) box.checked = is;
    },
    update(next, depth, now) {
      row = next;
      over = ENDED.has(row.status);
      const label = row.label ? oneLine(row.label, 100) : '';
      put(link, label || shortId(row.job_id));
      set(link, 'aria-label', label ? `${label} ${oneLine(id, 120)}` : oneLine(id, 120));
      set(link, 'title', oneLine(id, 160));
      put(short, label ? shortId(row.job_id) : '');
      element.style.setProperty('--depth', String(Math.min(depth, 6)));
      set(element, 'class', [depth ? 'child' : '', needsLook(row) && !over ? 'needs-look' : ''].filter(Boolean).join(' ') || null);
      show(mark, Boolean(depth));
      put(mark.lastChild, depth ? `child of ${oneLine(row.parent_job_id, 120)}: ` : '');
      const lonely = Boolean(row.parent_job_id) && !depth;
      put(parent, lonely ? `child of ${oneLine(row.parent_job_id, 60)}` : '');
      show(parent, lonely);
      badge.update(standing(row));
      show(answer, !over && row.reason?.code === 'asks');
      put(phase, over ? '' : oneLine(row.phase ?? '', 60));
      const { name, at } = splitAgent(row);
      put(agent, oneLine(name, 60));
      put(version, at ? `@${oneLine(at, 30)}` : '');
      put(last, oneLine(row.last ?? '', 110));
      set(last, 'title', row.last ? oneLine(row.last, 240) : null);
      box.disabled = over;
      drawMoney();
      const created = millis(row.created_at);
      const until = millis(row.ended_at);
      set(time, 'title', created === null ? null : `since ${new Date(created).toLocaleString()}`);
      set(ended, 'title', until === null ? null : new Date(until).toLocaleString());
      this.age(now);
    },
    age(now) {
      if (row === null) return;
      drawReason(now);
      drawProgress(now);
      const told = millis(row.last_at);
      put(ago, told === null || over ? '' : `${span((now - told) / 1000)} ago`);
      const created = millis(row.created_at);
      const until = millis(row.ended_at);
      const to = over ? until : now;
      const ran = created === null || to === null ? null : Math.max(0, to - created) / 1000;
      put(time, ran === null ? '–' : over ? `took ${duration(ran)}` : duration(Math.floor(ran)));
      put(ended, over ? moment(until ?? created, until === null ? 'began' : 'ended', now) : '');
    },
  };
}

/** "ended 14:03", or with its day if that is not today; empty if it is not known when. */
export function moment(at, word, now) {
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
