/** Computes the state of a recorded job, as the server does for a live one. Pure. */

import { num } from './numbers.js';
import { millis } from './text.js';

const BARS = 8;
const METERS = 16;
const KINDS = 64;
const CHILDREN = 64;
const GAPS = 32;
const WINDOW = 60;                 // seconds over which a burn rate is measured
const SHORTEST = 10;               // seconds: a cost in a job's first moments is no rate yet

/** The fold; `detail(now)` has the fields of the server's `job` message. */
export class Projection {
  constructor(start) {
    this.start = start;
    this.status = start.status || 'pending';
    if (['success', 'error', 'cancelled', 'timed_out'].includes(this.status)) this.status = 'running';
    this.phase = this.message = this.error = this.summary = null;
    this.began = this.last = null;
    this.events = 0;
    this.counts = new Map();
    this.bars = new Map();
    this.accounts = new Map();
    this.children = new Map();
    this.gaps = [];
    for (const text of start.lease?.['cost.budget'] ?? []) {
      const [, currency, amount] = /^([^:]+):(\d+(?:\.\d+)?)$/.exec(text) ?? [];
      if (currency) Object.assign(this.#account(currency) ?? {}, { granted: Number(amount), left: Number(amount) });
    }
  }

  apply(event) {
    const at = millis(event.ts);
    if (at !== null) {
      this.last = at;
      this.began ??= at;
    }
    if (this.status === 'pending' && event.kind !== 'gap') this.status = 'running';
    const kind = this.counts.has(event.kind) || this.counts.size < KINDS ? event.kind : 'other';
    this.counts.set(kind, (this.counts.get(kind) ?? 0) + 1);
    this.events += 1;
    switch (event.kind) {
      case 'status':
        this.phase = event.phase;
        this.message = event.message ?? null;
        break;
      case 'progress':
        if (!this.bars.has(event.units ?? '') && this.bars.size >= BARS) this.bars.delete(this.bars.keys().next().value);
        this.bars.set(event.units ?? '', { current: event.current, total: event.total, units: event.units, message: event.message });
        break;
      case 'metric':
        this.#metric(event);
        break;
      case 'delegate':
        if (event.child_job_id && (this.children.has(event.child_job_id) || this.children.size < CHILDREN)) {
          this.children.set(event.child_job_id, { job_id: event.child_job_id, agent: event.agent ?? '' });
        }
        break;
      case 'gap':
        this.gaps.push({ first: event.first, last: event.last, reason: event.reason });
        if (this.gaps.length > GAPS) this.gaps.shift();
        for (const account of this.accounts.values()) account.anchored = false;
        break;
      case 'result':
        this.status = 'success';
        this.summary = event.summary ?? null;
        break;
      case 'error':
        this.status = event.status ?? 'error';
        this.error = { code: event.code, message: event.message, retryable: event.retryable };
        break;
      default:
    }
  }

  #account(currency) {
    let account = this.accounts.get(currency);
    if (!account && this.accounts.size < METERS) {
      account = { granted: null, left: null, spent: 0, recent: [], anchored: false };
      this.accounts.set(currency, account);
    }
    return account;
  }

  #metric({ name, unit, value }) {
    if (!unit || num(value) === null || !String(name).startsWith('cost.')) return;
    const account = this.#account(unit);
    if (!account) return;
    const told = num(value);
    let amount = told;
    let dated = true;
    if (name === 'cost.budget.remaining') {
      // What is missing was spent by others; when, is known only since the report before.
      amount = account.left === null ? 0 : account.left - told;
      dated = account.anchored;
      account.left = told;
      account.anchored = true;
    } else if (account.left !== null && told > 0) account.left -= told;
    if (amount <= 0) return;
    account.spent += amount;
    if (!dated) return;
    const second = Math.floor((this.last ?? 0) / 1000);
    const newest = account.recent.at(-1);
    if (newest?.[0] === second) newest[1] += amount;
    else account.recent.push([second, amount]);
    if (account.recent.length > 2 * WINDOW) account.recent.shift();
  }

  detail(now = this.last) {
    const span = Math.min(WINDOW, Math.max(SHORTEST, ((now ?? 0) - (this.began ?? 0)) / 1000));
    const meters = [...this.accounts].map(([currency, { granted, left, spent, recent }]) => {
      const burnt = recent.reduce((sum, [second, amount]) => sum + ((now ?? 0) / 1000 - second < WINDOW ? amount : 0), 0);
      const rate = burnt / span;
      return { currency, granted, left, spent, rate, seconds_left: left === null || rate <= 0 ? null : Math.max(0, left / rate) };
    });
    const iso = (ms) => (ms === null ? null : new Date(ms).toISOString());
    return {
      job_id: this.start.job_id,
      agent: this.start.agent ?? '',
      status: this.status,
      parent_job_id: this.start.parent_job_id ?? null,
      lease: this.start.lease ?? {},
      expires_at: this.start.expires_at ?? null,
      credentials: [],
      phase: this.phase,
      message: this.message,
      began_at: iso(this.began),
      last_at: iso(this.last),
      progress: [...this.bars.values()],
      meters,
      children: [...this.children.values()],
      counts: Object.fromEntries(this.counts),
      events: this.events,
      gaps: this.gaps,
      error: this.error,
      summary: this.summary,
    };
  }
}
