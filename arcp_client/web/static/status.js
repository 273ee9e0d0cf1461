/** Shows the status of a job as an icon with a word, since colour alone is not enough. */

import { el, icon, put, set } from './dom.js';
import { oneLine } from './text.js';

const LOOK = {
  __proto__: null,
  pending: ['ring', 'plain'],
  running: ['play', 'run'],
  success: ['check', 'ok'],
  error: ['cross', 'error'],
  cancelled: ['stop', 'plain'],
  timed_out: ['clock', 'warn'],
  lost: ['gap', 'warn'],
  'waits for you': ['warn', 'error'],
  silent: ['warn', 'warn'],
};

/** What a list says in place of "running", by the code of the reason why the job needs attention. */
const INSTEAD = { __proto__: null, asks: 'waits for you', silent: 'silent' };

/** The word for a status. */
export function statusWord(status) {
  return oneLine(String(status || 'unknown').replace('_', ' '), 24);
}

/** What a list says of a row: its status, or that it runs and does not continue. */
export function standing(row) {
  return (row.status === 'running' && INSTEAD[row.reason?.code]) || row.status;
}

export const ENDED = new Set(['success', 'error', 'cancelled', 'timed_out', 'lost']);

/** A badge; `update(status)` changes it in place. */
export function statusBadge(status) {
  const word = el('span');
  const badge = el('span', { class: 'badge' }, word);
  let shown = null;
  badge.update = (next) => {
    if (next === shown) return badge;
    shown = next;
    const [shape, tone] = LOOK[next] ?? ['dot', 'plain'];
    badge.replaceChildren(icon(shape), word);
    put(word, statusWord(next));
    set(badge, 'class', `badge tone-${tone}`);
    return badge;
  };
  return badge.update(status);
}
