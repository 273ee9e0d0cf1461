/** Builds the page of a job from its `JobState`, for a live job and for a recording. */

import { el } from './dom.js';
import { factsPanel, faultPanel, relationsPanel } from './facts.js';
import { leasePanel } from './gauges.js';
import { resultPanel } from './resultpanel.js';
import { ENDED } from './status.js';
import { paced } from './ticker.js';
import { timelineView } from './timelineview.js';

/**
 * Draw a job's state, at most ten times a second; `tick` brings what counts seconds up to date.
 *
 * `told(events, errors)` hears what was drawn, for those who listen; `drawn(at)` when the oldest
 * event that is new on screen came to the server: events from before `since()` are history, not late.
 * `now()` is the clock that ages and countdowns go by, in ms.
 */
export function jobPanel(state, { transcript = null, result = null, links = true, told = () => {}, drawn = () => {}, since = () => Infinity, now = Date.now } = {}) {
  const facts = factsPanel();
  const fault = faultPanel();
  const lease = leasePanel();
  const relations = relationsPanel();
  const outcome = resultPanel();
  const timeline = timelineView(state, { transcript });
  const element = el('div', { class: 'job-grid' },
    el('div', { class: 'job-main' }, facts.element, fault.element, timeline.element),
    el('div', { class: 'job-side' }, lease.element, outcome.element, relations.element));
  let changed = new Set();
  let received = 0;
  let errors = 0;
  let oldest = null;                         // when the oldest event that is not drawn came

  const tick = () => {
    facts.tick(now());
    lease.tick(now());
  };

  const draw = paced(() => {
    const detail = shaped(state);
    facts.update(detail);
    lease.update(detail);
    relations.update(detail, links);
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
    take(type, data, bytes) {
      for (const id of state.take(type, data, bytes)) changed.add(id);
      if (type === 'reset') {
        received = errors = 0;
        oldest = null;
        timeline.reset();
      }
      if (type === 'events' && oldest === null) oldest = firstSince(data, since());
      draw();
    },
    tick,
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
