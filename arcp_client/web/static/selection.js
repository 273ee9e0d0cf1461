/** Selects many jobs of the list, and cancels them. */

import { confirm } from './dialog.js';
import { el, put, show } from './dom.js';
import { ENDED } from './status.js';
import { send } from './stream.js';
import { count, oneLine, plural } from './text.js';

const AT_ONCE = 4;

/**
 * The bar above the list that says how many jobs are selected. `shown()` gives the rows that the
 * filter keeps, `changed()` is called when the selection has changed.
 */
export function selectionBar({ store, announcer, shown, changed }) {
  const chosen = new Set();
  const words = el('span', { class: 'shown' });
  const cancel = el('button', { type: 'button', class: 'button danger small', on: { click: ask } }, 'Cancel selected…');
  const none = el('button', { type: 'button', class: 'button small', on: { click: () => { chosen.clear(); refresh(); changed(); } } }, 'Clear selection');
  const result = el('p', { class: 'foreign', role: 'status' });
  const element = el('div', { class: 'selection', hidden: true }, words, cancel, none, result);
  const all = el('input', { type: 'checkbox', class: 'pick', 'aria-label': 'Select all running jobs that are listed', on: { change: everything } });

  const running = () => shown().filter((row) => !ENDED.has(row.status));

  function everything() {
    const on = all.checked;
    chosen.clear();
    if (on) for (const row of running()) chosen.add(row.job_id);
    refresh();
    changed();
  }

  function refresh() {
    put(words, `${count(chosen.size)} selected`);
    show(element, chosen.size > 0 || Boolean(result.textContent));
    show(cancel, chosen.size > 0);
    show(none, chosen.size > 0);
    const most = chosen.size ? running().length : 0;
    all.checked = chosen.size > 0 && chosen.size >= most;
    all.indeterminate = chosen.size > 0 && chosen.size < most;
  }

  async function ask() {
    const ids = [...chosen];
    const reason = await confirm({
      title: ids.length === 1 ? 'Cancel this job?' : `Cancel ${count(ids.length)} jobs?`,
      text: `${plural(ids.length, 'job')} ${ids.length === 1 ? 'is' : 'are'} asked to stop. What ${ids.length === 1 ? 'it has' : 'they have'} done so far stays done.`,
      yes: ids.length === 1 ? 'Cancel job' : `Cancel ${count(ids.length)} jobs`, no: 'Keep running', note: 'Reason (optional)',
    });
    if (reason === null) return;
    cancel.disabled = true;
    const failed = [];
    let at = 0;
    const worker = async () => {
      while (at < ids.length) {
        const id = ids[at];
        at += 1;
        try {
          await send(`api/jobs/${encodeURIComponent(id)}/cancel`, reason ? { reason } : {});
          chosen.delete(id);
        } catch (cause) {
          failed.push(`${oneLine(id, 60)}: ${oneLine(cause.message, 160)}`);
        }
        put(result, `${count(at - failed.length)} of ${count(ids.length)} asked to stop.`);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
    put(result, failed.length
      ? `${plural(failed.length, 'job')} could not be cancelled. ${failed[0]}`
      : `${plural(ids.length, 'job')} asked to stop.`);
    announcer.say(result.textContent);
    cancel.disabled = false;
    refresh();
    changed();
  }

  return {
    element,
    all,
    has: (id) => chosen.has(id),
    pick(id, is) {
      if (is) chosen.add(id);
      else chosen.delete(id);
      put(result, '');
      refresh();
    },
    /** Jobs that have ended are no longer selected. */
    update(state) {
      for (const id of chosen) {
        const row = state.jobs.get(id);
        if (!row || ENDED.has(row.status)) chosen.delete(id);
      }
      refresh();
    },
  };
}
