/** Tells why a job needs attention, in words with a time. Pure. */

import { millis, oneLine } from './text.js';

const LOOK = {
  __proto__: null,
  alert: { tone: 'error', icon: 'warn' },
  warn: { tone: 'warn', icon: 'warn' },
  note: { tone: 'plain', icon: 'clock' },
};

/** Seconds in one unit: "40 s", "3 min", "2 h", "5 d". */
export function span(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  for (const [size, unit] of [[86400, 'd'], [3600, 'h'], [60, 'min']]) {
    if (whole >= size) return `${Math.floor(whole / size)} ${unit}`;
  }
  return `${whole} s`;
}

/** "waiting for fs.read for 40 s", "budget in USD ends in 3 min"; `now` in ms. */
export function reasonWords(reason, now) {
  const text = oneLine(reason.text ?? '', 160);
  const until = millis(reason.until);
  if (until !== null) return until > now ? `${text} in ${span((until - now) / 1000)}` : `${text} now`;
  const since = millis(reason.since);
  return since === null ? text : `${text} for ${span((now - since) / 1000)}`;
}

/** The tone and the icon of a reason. */
export function reasonLook(reason) {
  return LOOK[reason?.level] ?? LOOK.note;
}
