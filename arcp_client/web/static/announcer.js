/** Announces events and news to screen readers, in short sentences at intervals. */

import { plural } from './text.js';

/**
 * Summarizes events for a live region.
 *
 * A screen reader cannot read out every line of a log. Events are therefore counted and announced
 * once in `every` ms; news, such as a lost connection, is announced at the next turn.
 */
export class Announcer {
  #region;
  #every;
  #events = 0;
  #errors = 0;
  #news = [];
  #timer = null;
  #spoken = -Infinity;

  constructor(region, { every = 6000, gap = 600 } = {}) {
    this.#region = region;
    this.#every = every;
    this.gap = gap;
  }

  /** That many new events, and errors among them. */
  events(count, errors) {
    if (!count) return;
    this.#events += count;
    this.#errors += errors;
    this.#arm(this.#every);
  }

  /** A sentence that should not wait. */
  say(text) {
    if (!text || this.#news.at(-1) === text) return;
    if (this.#news.length >= 4) this.#news.shift();
    this.#news.push(text);
    clearTimeout(this.#timer);
    this.#timer = null;
    this.#arm(this.gap);
  }

  /** Drop what was not told: another page is shown. */
  clear() {
    clearTimeout(this.#timer);
    this.#timer = null;
    this.#events = this.#errors = 0;
    this.#news = [];
  }

  #arm(wait) {
    if (this.#timer !== null) return;
    // Even the first announcement waits a moment, so that simultaneous events share it.
    const left = Math.max(Math.min(wait, this.gap), this.#spoken + wait - performance.now());
    this.#timer = setTimeout(() => this.#speak(), left);
  }

  #speak() {
    this.#timer = null;
    this.#spoken = performance.now();
    const parts = this.#news;
    if (this.#events) parts.push(summary(this.#events, this.#errors));
    this.clear();
    this.#region.textContent = parts.join(' ');
  }
}

/** "12 new events, 1 error." */
export function summary(events, errors) {
  return `${plural(events, 'new event')}${errors ? `, ${plural(errors, 'error')}` : ''}.`;
}
