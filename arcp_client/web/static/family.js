/** Computes the tree of delegated jobs with what each of them, and all below it, has cost. Pure. */

import { numeric } from './money.js';
import { num } from './numbers.js';

/**
 * The tree to which a job belongs: `{row, depth, spent: Map, tokens, here}` in the order of a tree,
 * from the topmost ancestor that is known. `spent` has the sum of the subtree in each currency: the
 * costs of a child that its parent's budget was charged for are in the parent's number already.
 */
export function familyTree(jobs, id) {
  let top = id;
  for (const seen = new Set([id]); ;) {
    const parent = jobs.get(top)?.parent_job_id;
    if (!parent || seen.has(parent) || !jobs.has(parent)) break;
    seen.add(parent);
    top = parent;
  }
  if (!jobs.has(top)) return [];
  const below = new Map();
  for (const row of jobs.values()) {
    if (!row.parent_job_id) continue;
    if (!below.has(row.parent_job_id)) below.set(row.parent_job_id, []);
    below.get(row.parent_job_id).push(row);
  }
  const out = [];
  const seen = new Set();
  const visit = (row, depth) => {
    seen.add(row.job_id);
    const entry = { row, depth, spent: spentBy(row), tokens: num(row.tokens) ?? 0, here: row.job_id === id };
    out.push(entry);
    const children = (below.get(row.job_id) ?? []).filter((child) => !seen.has(child.job_id));
    const sums = new Map();
    for (const child of depth < 32 ? children : []) {
      const sub = visit(child, depth + 1);
      entry.tokens += sub.tokens;
      for (const [currency, much] of sub.spent) sums.set(currency, (sums.get(currency) ?? 0) + much);
    }
    for (const [currency, much] of sums) {
      const own = entry.spent.get(currency) ?? 0;
      const charged = (row.meters ?? []).some((meter) => meter.currency === currency && meter.granted !== null);
      entry.spent.set(currency, charged ? Math.max(own, much) : own + much);
    }
    return entry;
  };
  visit(jobs.get(top), 0);
  return out;
}

function spentBy(row) {
  const spent = new Map();
  for (const meter of row.meters ?? []) {
    const much = numeric(meter.spent);
    if (much > 0) spent.set(meter.currency, much);
  }
  return spent;
}
