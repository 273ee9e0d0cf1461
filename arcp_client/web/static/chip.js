/** Describes the state of both links in a few words with a tone. Pure. */

import { num } from './numbers.js';
import { count, duration, plural } from './text.js';

/**
 * What the connection chip says: `{tone, icon, text, hint}`.
 *
 * `page` is the link from this page to the dashboard's server; while that one is down nothing is
 * known of the other. `now` is the server's clock in ms.
 */
export function linkChip(link, page, now) {
  if (page.state === 'offline') {
    return { tone: 'error', icon: 'cross', text: 'page offline, reconnecting', hint: 'The dashboard’s server does not answer.' };
  }
  if (page.state === 'idle') {
    return { tone: 'plain', icon: 'pause', text: 'resting', hint: 'The page is hidden, and continues when it is shown.' };
  }
  if (!link || page.state === 'connecting') return { tone: 'plain', icon: 'turn', text: 'connecting', hint: '' };
  const turns = page.state === 'turns' ? 'Many windows are open: they take turns, and each is a few seconds late.' : '';
  const hint = link.cause ? String(link.cause) : turns;
  switch (link.state) {
    case 'live':
      return link.resumed
        ? { tone: 'ok', icon: 'check', text: 'live, resumed', hint: turns || 'The session was resumed: nothing was missed.' }
        : { tone: 'ok', icon: 'dot', text: 'live', hint: turns };
    case 'reconnecting':
      return { tone: 'warn', icon: 'turn', text: waiting(link, now), hint };
    case 'closed':
      return { tone: 'error', icon: 'stop', text: 'closed', hint };
    default:
      return { tone: 'plain', icon: 'turn', text: link.attempt > 1 ? `connecting, attempt ${link.attempt}` : 'connecting', hint };
  }
}

function waiting(link, now) {
  const at = num(link.retry_at);
  const left = at === null ? 0 : Math.ceil((at - now) / 1000);
  return left > 0 ? `reconnecting in ${left} s` : `reconnecting, attempt ${link.attempt || 1}`;
}

/** "21 events missing", "events missing" if the number is unknown; empty if there was no gap. */
export function gapChip(gap) {
  if (!gap) return '';
  const first = num(gap.first);
  const last = num(gap.last);
  if (first === null || last === null || last < first) return 'events missing';
  return `${plural(last - first + 1, 'event')} missing`;
}

/** The numbers of the missing events, and what to do. */
export function gapHint(gap) {
  const numbers = num(gap?.last) === null ? `from number ${count(gap?.first)} on` : `numbers ${count(gap.first)} to ${count(gap.last)}`;
  return `Events that the runtime did not deliver again: ${numbers}. The results of jobs are not affected.`;
}

/** "up to date", or how far the page is behind: "3 events behind, 1.2 s late". */
export function lagText(link, pageSeconds) {
  const events = num(link?.lag_events) ?? 0;
  const seconds = (num(link?.lag_seconds) ?? 0) + pageSeconds;
  const parts = [];
  if (events > 0) parts.push(`${plural(events, 'event')} behind`);
  if (seconds >= 0.5) parts.push(`${duration(seconds)} late`);
  return parts.join(', ') || 'up to date';
}

/** What is worth saying aloud when the link has changed; empty if nothing is. */
export function linkNews(before, after) {
  if (!after) return '';
  const gap = gapChip(after.gap);
  if (gap && gap !== gapChip(before?.gap)) return `Events were lost: ${gap}.`;
  if (!before || before.state === after.state) return '';
  if (after.state === 'reconnecting') return 'Connection to the runtime lost, reconnecting.';
  if (after.state === 'closed') return 'Connection to the runtime closed.';
  if (after.state === 'live') return after.resumed ? 'Connection resumed, nothing was missed.' : 'Connected.';
  return '';
}
