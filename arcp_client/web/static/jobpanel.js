/** Builds the page of a job from its `JobState`, for a live job and for a recording. */

import { el } from './dom.js';
import { familyPanel } from './familyview.js';
import { factsPanel, faultPanel, relationsPanel } from './facts.js';
import { leasePanel } from './gauges.js';
import { originPanel } from './originpanel.js';
import { resultPanel } from './resultpanel.js';
import { ENDED } from './status.js';
import { paced } from './ticker.js';
import { timelineView } from './timelineview.js';
import { waterfall } from './waterfall.js';

/**
 * Draw a job's state, at most ten times a second; `tick` brings what counts seconds up to date.
 *
 * `older()` asks the server for older events, and gives a promise of their arrival.
 * `told(events, errors)` hears what was drawn, for those who listen; `drawn(at)` when the oldest
 * event that is new on screen came to the server: events from before `since()` are history, not late.
 * `now()` is the clock that ages and countdowns go by, in ms.
 */
export function jobPanel(state, { transcript = null, result = null, older = null, links = true, jobs = () => new Map(), hrefOf = null, told = () => {}, drawn = () => {}, since = () => Infinity, now = Date.now } = {}) {
  const facts = factsPanel();
  const fault = faultPanel();
  const lease = leasePanel();
  const relations = relationsPanel();
  const outcome = resultPanel();
  const timeline = timelineView(state, { transcript, hrefOf, older });
  const calls = waterfall();
  const family = familyPanel();
  const origin = originPanel();
  const element = el('div', { class: 'job-grid' },
    el('div', { class: 'job-main' }, facts.element, fault.element, calls.element, timeline.element),
    el('div', { class: 'job-side' }, outcome.element, family.element, lease.element, relations.element, origin.element));
  let changed = new Set();
  let begun = false;
  let received = 0;
  let errors = 0;
  let oldest = null;                         // when the oldest event that is not drawn came

  const tick = () => {
    facts.tick(now());
    lease.tick(now());
    calls.tick(now());
  };

  const draw = paced(() => {
    const detail = shaped(state);
    facts.update(detail);
    lease.update(detail);
    relations.update(detail, links);
    origin.update(detail);
    const listed = jobs();
    const ids = new Set((detail.children ?? []).map((child) => child.job_id ?? child));
    calls.update(detail, [...listed.values()].filter((row) => ids.has(row.job_id) || row.parent_job_id === detail.job_id), now());
    family.update(listed, detail.job_id);
    fault.update(detail.error);
    tick();
    outcome.update(state, detail.status === 'success' ? result : null);
    const { timeline: rows } = state;
    timeline.update(changed);
    changed = new Set();
    if (!timeline.paused) told(Math.max(0, rows.received - received), Math.max(0, rows.errors - errors));
    received = rows.received;
    errors = rows.errors;
    if (oldest !== null) drawn(oldest);
    oldest = null;
  });

  return {
    element,
    draw,
    /** Take one message in and draw it soon. */
    take(type, data, bytes, position) {
      for (const id of state.take(type, data, bytes, position)) changed.add(id);
      if (type === 'reset') {
        begun = false;
        received = errors = 0;
        oldest = null;
        timeline.reset();
      }
      if (type === 'events' && oldest === null) oldest = firstSince(data, since());
      draw();
      if (type === 'events' && !begun && state.timeline.last >= state.folded) {
        begun = true;                        // the page has all that it opens with
        draw.next();
      }
    },
    /** Take a page of older events in. */
    prepend(page, bytes) {
      if (timeline.paused) return;
      const { timeline: rows } = state;
      const unseen = [rows.received - received, rows.errors - errors];
      const renamed = state.prepend(page, bytes);
      [received, errors] = [rows.received - unseen[0], rows.errors - unseen[1]];
      changed = new Set();
      timeline.prepended(renamed);
    },
    tick,
    origin,
    reveal: (n) => timeline.reveal(n),
    stop() {
      draw.stop();
      timeline.stop();
    },
  };
}

/** When the first entry that is no history came; null if all are. */
function firstSince(entries, since) {
  if (!entries.length || !(entries.at(-1).at >= since)) return null;
  return entries.find(({ at }) => at >= since).at;
}

/** The job's facts; its end is known from the events too. */
function shaped(state) {
  const { detail: told, listed } = state;
  const detail = told ?? {};
  const failure = state.failure;
  const status = detail.status ?? state.ended ?? 'pending';
  return {
    ...detail,
    created_at: detail.created_at ?? listed?.created_at,
    parent_job_id: detail.parent_job_id ?? listed?.parent_job_id,
    status,
    ended: ENDED.has(status),
    error: detail.error || failure ? { status, ...failure, ...detail.error } : null,
  };
}
