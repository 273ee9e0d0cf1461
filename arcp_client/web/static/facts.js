/** Shows the facts and the progress of a job, at the head of its page. */

import { bars } from './bars.js';
import { el, icon, put, show } from './dom.js';
import { splitAgent } from './jobrow.js';
import { remedyFor } from './remedies.js';
import { jobHref } from './router.js';
import { fraction } from './rows.js';
import { statusBadge } from './status.js';
import { share } from './table.js';
import { clip, count, duration, millis, oneLine } from './text.js';

/** Status, agent, age, phase and progress. */
export function factsPanel() {
  const badge = statusBadge('');
  const agent = el('span', { class: 'foreign' });
  const age = el('span');
  const phase = el('span', { class: 'foreign' });
  const phaseItem = item('Phase', phase);
  const progress = el('div', { class: 'meters' });
  const drawBars = bars(progress, 'progressbar', 'Progress');
  const element = el('div', {}, el('dl', { class: 'facts' }, item('Status', badge), item('Agent', agent), item('Age', age), phaseItem), progress);
  let created = null;
  let last = null;
  let ended = false;

  function item(label, value) {
    return el('div', {}, el('dt', {}, label), el('dd', {}, value));
  }

  return {
    element,
    update(detail) {
      badge.update(detail.status);
      const { name, at } = splitAgent(detail);
      put(agent, oneLine(name || '–', 80) + (at ? `@${oneLine(at, 40)}` : ''));
      const words = [detail.phase, detail.message].filter(Boolean).map((part) => oneLine(part, 120)).join(': ');
      put(phase, words);
      show(phaseItem, Boolean(words));
      created = millis(detail.created_at) ?? millis(detail.began_at);
      last = millis(detail.last_at);
      ended = detail.ended;
      const list = Array.isArray(detail.progress) ? detail.progress : [detail.progress].filter(Boolean);
      drawBars(list, (bar) => ({
        share: share({ progress: bar }),
        words: fraction({ ...bar, units: '' }),
        title: oneLine(bar.units || 'Progress', 40),
        more: bar.message ? oneLine(bar.message, 160) : '',
        tone: ended ? 'done' : 'plain',
      }));
      show(progress, list.length > 0);
    },
    tick(now) {
      if (created === null) return put(age, '–');
      const until = ended && last !== null ? last : now;
      return put(age, `${ended ? 'ran ' : ''}${duration(Math.floor(Math.max(0, until - created) / 1000))}`);
    },
  };
}

/** How a job failed, and what to do about it. */
export function faultPanel() {
  const code = el('strong', { class: 'foreign' });
  const message = el('span', { class: 'foreign' });
  const remedy = el('span', { class: 'foreign' });
  const retry = el('p', { class: 'muted' });
  const element = el('section', { class: 'panel tone-error', 'aria-labelledby': 'fault-title', hidden: true },
    el('h2', { id: 'fault-title' }, icon('cross'), el('span', {}, 'The job failed')),
    el('p', {}, code, ' ', message),
    el('p', {}, el('strong', {}, 'What to do: '), remedy), retry);
  return {
    element,
    update(fault) {
      show(element, Boolean(fault));
      if (!fault) return;
      put(element.querySelector('h2 span'), { __proto__: null, cancelled: 'The job was cancelled', timed_out: 'The job timed out' }[fault.status] ?? 'The job failed');
      put(code, oneLine(fault.code, 80));
      put(message, clip(fault.message ?? '', 2000));
      put(remedy, clip(remedyFor(fault), 1000));
      put(retry, fault.retryable ? 'The runtime says that trying again may help.' : 'The runtime says that trying again as it is will not help.');
    },
  };
}

/** The job's parent, its children, and how many events of each kind there were. */
export function relationsPanel() {
  const family = el('ul', { class: 'family' });
  const none = el('p', { class: 'muted' }, 'No parent, no children.');
  const counts = el('dl', { class: 'counts' });
  const element = el('section', { class: 'panel', 'aria-labelledby': 'relations-title' },
    el('h2', { id: 'relations-title' }, 'Relations and counts'), family, none, counts);
  let drawn = '';
  return {
    element,
    update(detail, links) {
      const related = [
        ...(detail.parent_job_id ? [['parent', detail.parent_job_id, '']] : []),
        ...(detail.children ?? []).map((child) => ['child', child.job_id ?? child, child.agent ?? '']),
      ];
      const now = JSON.stringify([related, detail.counts]);
      if (now === drawn) return;
      drawn = now;
      family.replaceChildren(...related.map(([role, id, agent]) => el('li', {}, icon('child'), el('span', { class: 'muted' }, role), ' ',
        links ? el('a', { class: 'job foreign', href: jobHref(id) }, oneLine(id, 120)) : el('span', { class: 'job foreign' }, oneLine(id, 120)),
        agent ? el('span', { class: 'muted foreign' }, ` ${oneLine(agent, 60)}`) : null)));
      show(family, related.length > 0);
      show(none, related.length === 0);
      counts.replaceChildren(...Object.entries(detail.counts ?? {}).map(([kind, n]) =>
        el('div', {}, el('dt', { class: 'foreign' }, oneLine(kind, 40)), el('dd', {}, count(n)))));
    },
  };
}
