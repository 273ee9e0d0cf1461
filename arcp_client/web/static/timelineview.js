/** Shows the rows of a job as a log that the user can filter, pause, open and scroll. */

import { copyButton } from './copy.js';
import { el, icon, put, set, show } from './dom.js';
import { filterBar } from './filterbar.js';
import { write } from './numbers.js';
import { describe, details, timeOf } from './rows.js';
import { Scroller } from './scroller.js';
import { count, plural } from './text.js';

/**
 * Show a `JobState`'s timeline. `update(changed)` draws what is new.
 *
 * Paused, it stays as it is while the state changes: nothing is lost, new events are counted.
 */
export function timelineView(state, { transcript = null, hrefOf = null, older: askOlder = null } = {}) {
  let match = null;                       // null: everything is shown
  let visible = [];                       // ids that match, if there is a filter
  let seen = 0;                           // ids below it were looked at
  let pausedAt = null;                    // {next, last} when it was paused

  const { timeline } = state;
  const end = () => pausedAt?.next ?? timeline.next;
  const begin = () => timeline.first;

  const source = {
    count: () => (match ? visible.length : Math.max(0, end() - begin())),
    idAt: (index) => (match ? visible[index] : begin() + index),
    indexOf(id) {
      if (!match) return id >= begin() && id < end() ? id - begin() : -1;
      const at = lowest(visible, id);
      return visible[at] === id ? at : -1;
    },
    versionOf: (id) => timeline.row(id)?.version ?? 0,
  };

  const list = el('ol', { class: 'rows', role: 'list' });
  const viewport = el('div', {
    class: 'log', role: 'log', 'aria-live': 'off', 'aria-label': 'Timeline', 'aria-describedby': 'timeline-keys', tabindex: 0,
  }, list);
  const scroller = new Scroller({
    viewport, list, source,
    make: () => {
      const li = el('li', { class: 'row' });
      li.append(el('button', { type: 'button', class: 'line', tabindex: -1, 'aria-expanded': 'false' }));
      return li;
    },
    fill: (li, id, open) => fill(li, timeline.row(id), open, hrefOf),
    onFollow: () => jump(),
    onTop: () => { if (!match) more(); },
  });

  const olderWords = el('span');
  const olderFile = transcript ? el('a', { href: transcript, download: true }, 'Download the transcript') : null;
  const olderButton = el('button', { type: 'button', class: 'button small', hidden: true, on: { click: () => more() } }, 'Show older events');
  const older = el('p', { class: 'note', hidden: true }, olderWords, ' ', olderButton, ' ', olderFile);
  let asking = false;
  const empty = el('p', { class: 'empty' }, 'No events yet.');
  const latest = el('button', { type: 'button', class: 'button small', hidden: true, on: { click: () => { scroller.toEnd(); viewport.focus(); } } }, 'Jump to latest');
  const pauseWord = el('span', {}, 'Pause');
  const pauseIcon = el('span', { class: 'slot' }, icon('pause'));
  const pause = el('button', { type: 'button', class: 'button small', id: 'pause', on: { click: () => setPaused(!pausedAt) } }, pauseIcon, pauseWord);
  const shown = el('span', { class: 'shown', id: 'timeline-count' });
  const bar = filterBar((predicate, all) => {
    match = all ? null : predicate;
    rescan();
    draw();
  });

  viewport.addEventListener('keydown', (event) => {
    if (event.key === 'p' && !event.ctrlKey && !event.metaKey && !event.altKey) setPaused(!pausedAt);
  });

  const element = el('section', { class: 'panel timeline', 'aria-labelledby': 'timeline-title' },
    el('div', { class: 'panel-head' }, el('h2', { id: 'timeline-title' }, 'Timeline'), shown, el('span', { class: 'grow' }), latest, pause),
    bar.element,
    older,
    el('div', { class: 'log-frame' }, viewport, empty),
    el('p', { id: 'timeline-keys', class: 'visually-hidden' }, 'Arrow keys move between events, Enter opens one, End follows the newest, p pauses.'));

  /** Ask for a page of older events, unless one is on its way. */
  async function more() {
    if (!askOlder || asking || !state.before || pausedAt) return;
    asking = true;
    draw();
    try {
      await askOlder();
    } finally {
      asking = false;
      draw();
    }
  }

  function setPaused(on) {
    if (on === Boolean(pausedAt)) return;
    pausedAt = on ? { next: timeline.next, last: timeline.last ?? 0, received: timeline.received } : null;
    set(pause, 'data-on', on);          // its word says what it will do
    put(pauseWord, on ? 'Resume' : 'Pause');
    pauseIcon.replaceChildren(icon(on ? 'play' : 'pause'));
    if (!on) rescan();
    draw();
  }

  function rescan() {
    visible = [];
    seen = begin();
    scan();
  }

  function scan() {
    if (!match) return;
    if (visible.length && visible[0] < begin()) visible = visible.slice(lowest(visible, begin()));
    seen = Math.max(seen, begin());
    for (; seen < end(); seen += 1) if (match(timeline.row(seen))) visible.push(seen);
  }

  /** Rows that changed may match now, or no longer. */
  function recheck(changed) {
    if (!match) return;
    for (const id of changed) {
      const row = timeline.row(id);
      if (!row || id >= seen) continue;
      const at = lowest(visible, id);
      const was = visible[at] === id;
      const is = match(row);
      if (is && !was) visible.splice(at, 0, id);
      if (was && !is) visible.splice(at, 1);
    }
  }

  function jump() {
    show(latest, !scroller.follow && !pausedAt);
  }

  function emptiness() {
    if (!timeline.size) return state.reason === null ? 'The events are being loaded …' : 'No events yet.';
    if (end() <= begin()) return 'What was paused here is older than what the page holds. Resume to continue.';
    return 'No event matches the filter.';
  }

  function draw() {
    scan();
    scroller.render();
    const total = source.count();
    show(empty, total === 0);
    put(empty, emptiness());
    const behind = pausedAt ? (timeline.received - pausedAt.received) : 0;
    const held = match ? `${count(total)} of ${plural(end() - begin(), 'row')}` : plural(total, 'row');
    put(shown, pausedAt ? `${held} · paused, ${count(behind)} new` : held);
    set(shown, 'data-last', timeline.last);
    set(shown, 'data-behind', pausedAt ? behind : null);
    jump();
    const before = state.older;
    show(older, before > 0);
    if (before === 0) return;
    const are = `${plural(before, 'older event')} ${before === 1 ? 'is' : 'are'}`;
    const rest = state.before ? 'not loaded yet.' : transcript ? 'not shown here:' : 'not shown here: seek back to see them.';
    put(olderWords, asking ? 'Older events are loaded …' : `${are} ${rest}`);
    show(olderButton, Boolean(askOlder && state.before) && !pausedAt);
    olderButton.disabled = asking;
    if (olderFile) show(olderFile, !state.before);
  }

  return {
    element,
    update(changed) {
      recheck(changed);
      draw();
    },
    /** Older events came, and the rows have new ids. */
    prepended(renamed) {
      if (renamed) {
        scroller.rename(renamed);
        rescan();
      }
      draw();
    },
    /** The rows were forgotten: begin anew. */
    reset() {
      scroller.clear();
      if (pausedAt) pausedAt = { next: timeline.next, last: 0, received: 0 };
      rescan();
      draw();
    },
    /** Open the row with this event and bring it into sight; false if it is not there (yet). */
    reveal(n) {
      for (let id = timeline.first; id < timeline.next; id += 1) {
        const row = timeline.row(id);
        const last = row.result ? Math.max(row.last, row.resultN ?? 0) : row.last;
        if (row.n !== n && !(n > row.n && n <= last && (row.count > 1 || row.resultN === n))) continue;
        const index = source.indexOf(id);
        if (index < 0) return false;
        scroller.show(index);
        return true;
      }
      return false;
    },
    get paused() {
      return Boolean(pausedAt);
    },
    stop: () => scroller.stop(),
  };
}

/** The first place in a sorted list whose value is not below `id`. */
function lowest(ids, id) {
  let low = 0;
  let high = ids.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ids[middle] < id) low = middle + 1;
    else high = middle;
  }
  return low;
}

function fill(li, row, open, hrefOf) {
  if (!row) return;
  const { icon: shape, word, tone, parts } = describe(row);
  const line = li.firstChild;
  set(li, 'class', `row tone-${tone}${open ? ' open' : ''}`);
  set(line, 'aria-expanded', open ? 'true' : 'false');
  line.replaceChildren(
    icon('chevron'),
    el('span', { class: 'time' }, timeOf(row)),
    el('span', { class: 'kind' }, icon(shape), el('span', {}, word)),
    el('span', { class: 'what' }, parts.filter(([, text]) => text).map(([kind, text]) => el('bdi', { class: `part-${kind}` }, text))));
  li.querySelector('.detail')?.remove();
  if (open) {
    li.append(el('dl', { class: 'detail' }, details(row).map(([label, text]) =>
      el('div', {}, el('dt', {}, label), el('dd', {}, el('pre', { class: 'foreign', tabindex: text.length > 400 || text.includes('\n') ? 0 : false }, text)))),
    el('div', {}, el('dt', {}, 'share'), el('dd', {},
      copyButton('Copy as JSON', () => write(row.result ? [row.event, row.result] : row.event, 2)), ' ',
      hrefOf ? el('a', { class: 'button small', href: hrefOf(row.n) }, 'Link to this event') : null))));
  }
}
