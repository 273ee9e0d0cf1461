/** Computes what the page of a job shows from the messages of its stream. No document, no clock. */

import { num } from './numbers.js';
import { Timeline } from './timeline.js';

/**
 * The state of one job's page: the same for a live job and for a replayed recording.
 *
 * `detail` is the job as the server (or `projection.js`) sums it up, `timeline` the rows, `streams`
 * the results that come in pieces, `link` the state of the client's link to the runtime.
 */
export class JobState {
  constructor(limits) {
    this.timeline = new Timeline(limits);
    this.detail = null;
    this.listed = null;                // the job's row in the table, which may know more
    this.link = null;
    this.ended = null;
    this.forget();
  }

  forget() {
    this.timeline.reset();
    this.streams = new ResultStreams();
    this.value = undefined;
    this.failure = null;
    this.held = null;
    this.before = null;                // the position up to which the server has older events
    this.folded = 0;                   // the number of the last event in what the reset brought
    this.reason = null;
  }

  /** Take one message of the stream in, with its position; returns the ids of rows that changed. */
  take(type, data, bytes, id = '') {
    switch (type) {
      case 'job':
        this.detail = data;
        break;
      case 'link':
        this.link = data;
        break;
      case 'reset':
        this.forget();
        this.ended = null;
        this.reason = data.reason;
        this.before = data.older > 0 && id ? id : null;
        this.folded = data.at ?? 0;
        this.streams.restore(data.results ?? []);
        break;
      case 'events':
        return this.#events(data, bytes);
      case 'end':
        this.ended = data.status ?? 'ended';
        break;
      default:                          // a newer server may say more
    }
    return new Set();
  }

  #events(entries, bytes) {
    const last = this.timeline.last;
    for (const { n, event } of entries) {
      if (last !== null && n <= last) continue;
      if (event.kind === 'result_chunk' && n > this.folded) this.streams.take(event);
      else if (event.kind === 'result') this.value = event;
      else if (event.kind === 'error') this.failure = event;
    }
    const changed = this.timeline.apply(entries, bytes);
    this.held = this.timeline.start;
    if (!this.timeline.growable) this.before = null;
    return changed;
  }

  /**
   * Take a page of older events in: `{before, events}`. Gives the new ids of rows, as
   * `Timeline.prepend` does; null if the page has no room for them, and then asks for no more.
   */
  prepend({ before, events }, bytes) {
    const renamed = this.timeline.prepend(events, bytes);
    this.before = renamed ? before : null;
    this.held = this.timeline.start;
    return renamed;
  }

  /** Events that are older than what the page holds. */
  get older() {
    return (this.held === null ? 0 : this.held - 1) + this.timeline.dropped;
  }
}

const TAIL = 32 * 1024;
const utf8 = new TextEncoder();

/** Results that come in pieces: the end of each text, and how much there was. As `result_tails.py`. */
export class ResultStreams {
  constructor() {
    this.byId = new Map();
  }

  /** Begin with what the server has computed. */
  restore(results) {
    this.byId = new Map(results.map((each) => [each.id, { ...each }]));
  }

  take(event) {
    const id = String(event.result_id ?? '');
    let stream = this.byId.get(id);
    if (!stream) {
      if (this.byId.size >= 8) this.byId.delete(this.byId.keys().next().value);
      stream = { id, chunks: 0, next: 0, size: 0, text: '', cut: 0, binary: false, missing: 0, done: false };
      this.byId.set(id, stream);
    }
    const data = String(event.data ?? '');
    const seq = num(event.chunk_seq) ?? 0;
    if (seq < stream.next) return;                        // a piece that came again
    stream.missing += seq - stream.next;
    stream.next = seq + 1;
    stream.chunks += 1;
    stream.done = event.more === false;
    if (event.encoding === 'base64') {
      stream.binary = true;
      stream.size += Math.floor(data.replace(/=+$/, '').length * 3 / 4);
      return;
    }
    stream.size += utf8.encode(data).length;
    stream.text += data;
    if (stream.text.length <= 2 * TAIL) return;
    const letters = [...stream.text];                     // no pair of surrogates is cut
    if (letters.length <= 2 * TAIL) return;
    stream.cut += letters.length - TAIL;
    stream.text = letters.slice(-TAIL).join('');
  }
}
