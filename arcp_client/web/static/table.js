/** Filters and sorts the rows of the job list. Pure. */

import { num } from './numbers.js';
import { millis } from './text.js';

export const COLUMNS = [
  { key: 'job', label: 'Job' },
  { key: 'status', label: 'Status' },
  { key: 'agent', label: 'Agent' },
  { key: 'progress', label: 'Progress' },
  { key: 'age', label: 'Time' },
];

const STATUS_ORDER = ['running', 'pending', 'error', 'lost', 'timed_out', 'cancelled', 'success'];
const ERA = 1e15;                                    // ms: later than any job

const KEYS = {
  job: (row) => row.job_id,
  status: (row) => {
    const at = STATUS_ORDER.indexOf(row.status);
    return at < 0 ? STATUS_ORDER.length : at;
  },
  agent: (row) => `${row.agent ?? ''}@${row.version ?? ''}`,
  progress: (row) => share(row) ?? -1,
  age: (row) => -(millis(row.created_at) ?? 0) - (active(row) ? ERA : 0),   // what runs, then the youngest
};

const active = (row) => row.status === 'running' || row.status === 'pending';

/** The progress of a job, from 0 to 1; null if it is unknown. */
export function share(row) {
  const p = row.progress;
  if (!p || !(num(p.total) > 0) || num(p.current) === null) return null;
  return Math.min(1, Math.max(0, p.current / p.total));
}

/**
 * What the table shows: `[{row, depth}]`, parents before their children. A family stands where the
 * first of its members would: a child that runs is not behind the jobs that ended after its parent.
 *
 * `text` must be in the id, agent, phase or status; `status` is one status, 'active' or ''. A child
 * whose parent is not shown stands by itself. Equal keys keep the order of ids.
 */
export function arrange(jobs, { text = '', status = '', sort = 'age', descending = false, nest = true }) {
  const wanted = text.trim().toLowerCase();
  const kept = [];
  for (const row of jobs.values()) {
    if (status === 'active' ? !active(row) : status && row.status !== status) continue;
    if (wanted && !`${row.job_id}\n${row.agent}@${row.version ?? ''}\n${row.phase ?? ''}\n${row.status}`.toLowerCase().includes(wanted)) continue;
    kept.push(row);
  }
  const key = KEYS[sort] ?? KEYS.age;
  const turn = descending ? -1 : 1;
  kept.sort((a, b) => turn * compare(key(a), key(b)) || compare(a.job_id, b.job_id));
  if (!nest) return kept.map((row) => ({ row, depth: 0 }));

  const shown = new Set(kept.map((row) => row.job_id));
  const children = new Map();
  const parents = new Map();
  for (const row of kept) {
    const parent = row.parent_job_id;
    if (parent && parent !== row.job_id && shown.has(parent)) {
      if (!children.has(parent)) children.set(parent, []);
      children.get(parent).push(row);
      parents.set(row.job_id, parent);
    }
  }
  const byId = new Map(kept.map((row) => [row.job_id, row]));
  const root = (row) => {
    let at = row.job_id;
    for (const seen = new Set(); parents.has(at) && !seen.has(at); at = parents.get(at)) seen.add(at);
    return byId.get(at);
  };
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
  for (const row of kept) {
    if (!placed.has(row.job_id)) place(root(row));
    place(row);                              // parents that name each other still are shown
  }
  return out;
}

function compare(a, b) {
  return a < b ? -1 : a > b ? 1 : 0;
}
