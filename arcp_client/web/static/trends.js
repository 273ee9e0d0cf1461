/** Computes what happened lately over all jobs, from the rows of the job list. Pure. */

import { numeric } from './money.js';
import { ENDED } from './status.js';
import { millis } from './text.js';

const MINUTE = 60e3;
export const MINUTES = 30;

/**
 * Numbers of each of the last 30 minutes, oldest first: `{began, ended, failed, spent: Map}`.
 *
 * The cost of a job is spread evenly over its run: when exactly it was spent, a list does not tell.
 */
export function minutes(jobs, now) {
  const found = Array.from({ length: MINUTES }, () => ({ began: 0, ended: 0, failed: 0, spent: new Map() }));
  const first = now - MINUTES * MINUTE;
  const slot = (at) => (at === null || at < first || at >= now ? null : found[Math.floor((at - first) / MINUTE)]);
  for (const row of jobs.values()) {
    const from = millis(row.created_at);
    const over = ENDED.has(row.status);
    const to = over ? millis(row.ended_at) : now;
    const began = slot(from);
    if (began) began.began += 1;
    const ended = over ? slot(to) : null;
    if (ended) {
      ended.ended += 1;
      if (failed(row)) ended.failed += 1;
    }
    if (from === null || to === null) continue;
    for (const meter of row.meters ?? []) {
      const much = numeric(meter.spent);
      if (!(much > 0)) continue;
      const long = Math.max(to - from, 1);
      for (let n = 0; n < MINUTES; n += 1) {
        const begin = first + n * MINUTE;
        const shared = Math.min(to, begin + MINUTE) - Math.max(from, begin);
        if (shared > 0) found[n].spent.set(meter.currency, (found[n].spent.get(meter.currency) ?? 0) + (much * shared) / long);
      }
    }
  }
  return found;
}

function failed(row) {
  return row.status === 'error' || row.status === 'timed_out' || row.status === 'lost';
}

/**
 * Each agent: `{agent, jobs, running, ended, failed, median, longest, spent: Map}`, the slowest first.
 * `median` and the time of `longest` (`{row, seconds}`) are seconds of jobs that ended or run.
 */
export function agents(jobs, now) {
  const found = new Map();
  for (const row of jobs.values()) {
    const name = row.agent || '–';
    if (!found.has(name)) found.set(name, { agent: name, jobs: 0, running: 0, ended: 0, failed: 0, took: [], longest: null, spent: new Map() });
    const one = found.get(name);
    const over = ENDED.has(row.status);
    one.jobs += 1;
    if (over) one.ended += 1;
    else one.running += 1;
    if (failed(row)) one.failed += 1;
    const from = millis(row.created_at);
    const to = over ? millis(row.ended_at) : now;
    if (from !== null && to !== null) {
      const seconds = Math.max(0, to - from) / 1000;
      if (over) one.took.push(seconds);
      if (!one.longest || seconds > one.longest.seconds) one.longest = { row, seconds };
    }
    for (const meter of row.meters ?? []) {
      const much = numeric(meter.spent);
      if (much > 0) one.spent.set(meter.currency, (one.spent.get(meter.currency) ?? 0) + much);
    }
  }
  const out = [...found.values()].map(({ took, ...one }) => ({ ...one, median: middle(took) }));
  return out.sort((a, b) => (b.median ?? b.longest?.seconds ?? 0) - (a.median ?? a.longest?.seconds ?? 0));
}

function middle(values) {
  if (!values.length) return null;
  const sorted = [...values].sort((a, b) => a - b);
  const half = sorted.length >> 1;
  return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}
