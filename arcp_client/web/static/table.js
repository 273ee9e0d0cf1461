/** Rows of jobs and a filter in, a sorted list of what to show out. Pure. */

import { num } from './numbers.js';
import { millis } from './text.js';

export const COLUMNS = [
  { key: 'job', label: 'Job' },
  { key: 'status', label: 'Status' },
  { key: 'agent', label: 'Agent' },
  { key: 'progress', label: 'Progress' },
  { key: 'age', label: 'Age' },
];

const STATUS_ORDER = ['running', 'pending', 'error', 'timed_out', 'cancelled', 'success'];

const KEYS = {
  job: (row) => row.job_id,
  status: (row) => {
    const at = STATUS_ORDER.indexOf(row.status);
    return at < 0 ? STATUS_ORDER.length : at;
  },
  agent: (row) => `${row.agent ?? ''}@${row.version ?? ''}`,
  progress: (row) => share(row) ?? -1,
  age: (row) => -(millis(row.created_at) ?? 0),      // the youngest first
};

/** How far a job is, from 0 to 1; null if nobody knows. */
export function share(row) {
  const p = row.progress;
  if (!p || !(num(p.total) > 0) || num(p.current) === null) return null;
  return Math.min(1, Math.max(0, p.current / p.total));
}

/**
 * What the table shows: `[{row, depth}]`, parents before their children.
 *
 * `text` must be in the id, agent, phase or status; `status` is one status, 'active' or ''. A child
 * whose parent is not shown stands by itself. Equal keys keep the order of ids.
 */
export function arrange(jobs, { text = '', status = '', sort = 'age', descending = false, nest = true }) {
  const wanted = text.trim().toLowerCase();
  const kept = [];
  for (const row of jobs.values()) {
    if (status === 'active' ? row.status !== 'running' && row.status !== 'pending' : status && row.status !== status) continue;
    if (wanted && !`${row.job_id}\n${row.agent}@${row.version ?? ''}\n${row.phase ?? ''}\n${row.status}`.toLowerCase().includes(wanted)) continue;
    kept.push(row);
  }
  const key = KEYS[sort] ?? KEYS.age;
  const turn = descending ? -1 : 1;
  kept.sort((a, b) => turn * compare(key(a), key(b)) || compare(a.job_id, b.job_id));
  if (!nest) return kept.map((row) => ({ row, depth: 0 }));

  const shown = new Set(kept.map((row) => row.job_id));
  const children = new Map();
  const roots = [];
  for (const row of kept) {
    const parent = row.parent_job_id;
    if (parent && parent !== row.job_id && shown.has(parent)) {
      if (!children.has(parent)) children.set(parent, []);
      children.get(parent).push(row);
    } else roots.push(row);
  }
  const out = [];
  const placed = new Set();
  const place = (from) => {
    const stack = [{ row: from, depth: 0 }];
    while (stack.length) {
      const next = stack.pop();
      if (placed.has(next.row.job_id)) continue;
      placed.add(next.row.job_id);
      out.push(next);
      const below = children.get(next.row.job_id) ?? [];
      for (let i = below.length - 1; i >= 0; i -= 1) stack.push({ row: below[i], depth: next.depth + 1 });
    }
  };
  for (const row of roots) place(row);
  for (const row of kept) place(row);        // parents that name each other still are shown
  return out;
}

function compare(a, b) {
  return a < b ? -1 : a > b ? 1 : 0;
}
