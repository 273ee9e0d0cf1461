/** Filters, sorts and counts the rows of the job list. Pure. */

import { num } from './numbers.js';
import { millis } from './text.js';

export const COLUMNS = [
  { key: 'job', label: 'Job' },
  { key: 'status', label: 'State' },
  { key: 'agent', label: 'Agent' },
  { key: 'progress', label: 'Progress' },
  { key: 'last', label: 'Last event' },
  { key: 'money', label: 'Cost and budget' },
  { key: 'age', label: 'Time' },
];

/** What a list shows unless its address says otherwise. */
export const DEFAULTS = Object.freeze({ text: '', status: '', agent: '', since: '', sort: 'age', descending: false, nest: true });

/** How far back jobs are shown, by the word in the address: a label and milliseconds. */
export const SINCE = new Map([
  ['', ['any time', Infinity]],
  ['15m', ['the last 15 minutes', 15 * 60e3]],
  ['1h', ['the last hour', 3600e3]],
  ['24h', ['the last 24 hours', 24 * 3600e3]],
  ['7d', ['the last 7 days', 7 * 24 * 3600e3]],
]);

const STATUSES = ['running', 'pending', 'success', 'error', 'cancelled', 'timed_out', 'lost'];
const STATUS_ORDER = ['running', 'pending', 'error', 'lost', 'timed_out', 'cancelled', 'success'];
const LEVELS = ['alert', 'warn', 'note'];
const ERA = 1e15;                                    // ms: later than any job

const KEYS = {
  job: (row) => `${row.label ?? ''}\u0000${row.job_id}`,
  status: (row) => urgency(row) * 10 + order(row),
  agent: (row) => `${row.agent ?? ''}@${row.version ?? ''}`,
  progress: (row) => share(row) ?? -1,
  last: (row) => -(millis(row.last_at) ?? 0),
  money: (row) => -Math.max(-1, ...(row.meters ?? []).map(({ spent }) => Number(spent) || 0)),   // the dearest first
  age: (row) => -(millis(row.created_at) ?? 0) - (active(row) ? ERA : 0),   // what runs, then the youngest
};

const active = (row) => row.status === 'running' || row.status === 'pending';

function order(row) {
  const at = STATUS_ORDER.indexOf(row.status);
  return at < 0 ? STATUS_ORDER.length : at;
}

/** What runs and needs attention, then what else runs, then what has ended. */
function urgency(row) {
  if (!active(row)) return 4;
  const at = LEVELS.indexOf(row.reason?.level);
  return at < 0 ? 3 : at;
}

/** Whether a person should look at the job: a reason that is more than a note. */
export function needsLook(row) {
  return row.reason?.level === 'alert' || row.reason?.level === 'warn';
}

/** The progress of a job, from 0 to 1; null if it is unknown. */
export function share(row) {
  const p = row.progress;
  if (!p || !(num(p.total) > 0) || num(p.current) === null) return null;
  return Math.min(1, Math.max(0, p.current / p.total));
}

function fits(row, wanted, { agent = '', since = '' }, now) {
  if (agent && row.agent !== agent) return false;
  const span = SINCE.get(since)?.[1] ?? Infinity;
  if (span !== Infinity && !active(row) && now - (millis(row.ended_at) ?? millis(row.created_at) ?? 0) > span) return false;
  if (!wanted) return true;
  return `${row.label ?? ''}\n${row.job_id}\n${row.agent}@${row.version ?? ''}\n${row.phase ?? ''}\n${row.status}\n${row.last ?? ''}\n${row.failure ?? ''}`.toLowerCase().includes(wanted);
}

function has(row, status) {
  if (!status) return true;
  if (status === 'active') return active(row);
  return status === 'look' ? needsLook(row) : row.status === status;
}

/**
 * How many jobs have each status, among those that the other filters keep: a Map from '' (all),
 * 'look' (those that need one), 'active' and each status to a number.
 */
export function counts(jobs, filter, now = Date.now()) {
  const wanted = (filter.text ?? '').trim().toLowerCase();
  const found = new Map(['', 'look', 'active', ...STATUSES].map((status) => [status, 0]));
  for (const row of jobs.values()) {
    if (!fits(row, wanted, filter, now)) continue;
    for (const status of found.keys()) if (has(row, status)) found.set(status, found.get(status) + 1);
  }
  return found;
}

/**
 * What the table shows: `[{row, depth}]`, parents before their children. A family stands where the
 * first of its members would: a child that runs is not behind the jobs that ended after its parent.
 *
 * `text` must be in the label, id, agent, phase, status, last event or failure; `status` is one status,
 * 'active', 'look' or ''; `since` is a key of `SINCE`. A child whose parent is not shown stands by
 * itself. Equal keys keep the order of ids.
 */
export function arrange(jobs, filter, now = Date.now()) {
  const { text = '', status = '', sort = 'age', descending = false, nest = true } = filter;
  const wanted = text.trim().toLowerCase();
  const kept = [];
  for (const row of jobs.values()) {
    if (has(row, status) && fits(row, wanted, filter, now)) kept.push(row);
  }
  const key = KEYS[sort] ?? KEYS.age;
  const turn = descending ? -1 : 1;
  const keys = new Map(kept.map((row) => [row, key(row)]));
  kept.sort((a, b) => turn * compare(keys.get(a), keys.get(b)) || compare(a.job_id, b.job_id));
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

/** The filters of an address's query; what is unknown is left out. */
export function fromQuery(query) {
  const chosen = { ...DEFAULTS };
  for (const name of ['text', 'status', 'agent', 'since']) chosen[name] = (query.get(name) ?? '').slice(0, 200);
  if (Object.hasOwn(KEYS, query.get('sort') ?? '')) chosen.sort = query.get('sort');
  if (!SINCE.has(chosen.since)) chosen.since = '';
  chosen.descending = query.get('order') === 'descending';
  chosen.nest = query.get('nest') !== 'no';
  return chosen;
}

/** The query that `fromQuery` reads; empty for the defaults. */
export function toQuery(chosen) {
  const query = new URLSearchParams();
  for (const name of ['text', 'status', 'agent', 'since']) if (chosen[name]) query.set(name, chosen[name]);
  if (chosen.sort !== DEFAULTS.sort) query.set('sort', chosen.sort);
  if (chosen.descending) query.set('order', 'descending');
  if (!chosen.nest) query.set('nest', 'no');
  return query.toString();
}

function compare(a, b) {
  return a < b ? -1 : a > b ? 1 : 0;
}
