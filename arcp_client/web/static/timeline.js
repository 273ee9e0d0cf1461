/** Turns the events of a job into a limited number of rows: drops duplicates, pairs calls with their results. No document. */

// Tables that are asked for what an agent named have no prototype: it may name "constructor".
const MERGED = { __proto__: null, progress: (e) => e.units ?? '', result_chunk: (e) => e.result_id ?? '' };

const THOUGHTS = 200;                        // in one row; the older ones are in the transcript

/**
 * A fold of one job's events, in order, into the rows that a person reads.
 *
 * A row has an `id` that only grows, so a view may keep it; `version` changes with the row. At most
 * `rows` rows or about `bytes` bytes are kept; `dropped` counts the events that went. The same
 * entries give the same rows, however they were cut into batches.
 */
export class Timeline {
  #rows = [];
  #base = 0;
  #bytes = 0;
  #calls = new Map();
  #given = [];                       // the batches so far, while older ones may come; null after that
  #givenBytes = 0;

  constructor({ rows = 10000, bytes = 24 * 2 ** 20 } = {}) {
    this.limits = { rows, bytes };
    this.reset();
  }

  /** Forget everything; the next entry may have any position. */
  reset() {
    this.#base += this.#rows.length;   // ids are never given twice
    this.#rows = [];
    this.#calls.clear();
    this.#bytes = 0;
    this.#given = [];
    this.#givenBytes = 0;
    this.last = null;                  // position of the newest event
    this.start = null;                 // position of the first one given
    this.at = null;                    // when the server got the newest one, in ms
    this.received = 0;
    this.repeated = 0;
    this.missing = 0;
    this.dropped = 0;
    this.errors = 0;
  }

  get first() {
    return this.#base;
  }

  get next() {
    return this.#base + this.#rows.length;
  }

  get size() {
    return this.#rows.length;
  }

  row(id) {
    return this.#rows[id - this.#base];
  }

  /**
   * Take entries `{n, at, event}` in. `bytes` is the size of the whole batch on the wire.
   *
   * Returns the ids of rows that were there before and changed.
   */
  apply(entries, bytes = entries.length * 300) {
    const changed = new Set();
    const known = this.next;
    this.#remember(entries, bytes);
    const share = entries.length ? bytes / entries.length : 0;
    for (const { n, at, event } of entries) {
      if (this.last !== null && n <= this.last) {
        this.repeated += 1;
        continue;
      }
      if (this.last !== null && n > this.last + 1) this.#hole(this.last + 1, n - 1, at);
      if (this.last === null) this.start = n;
      this.last = n;
      this.at = at;
      this.received += 1;
      const row = this.#take(n, at, event, share);
      if (row.id < known) changed.add(row.id);
    }
    this.#trim();
    return changed;
  }

  /**
   * Take older entries in, which end where the first one given begins: the rows are those of all
   * entries in one. Null if there is no room for them, or after rows were dropped.
   *
   * All rows get new ids: gives a function from an earlier id to that of the row with its first event.
   */
  prepend(entries, bytes = entries.length * 300) {
    if (this.#given === null || this.received + entries.length > this.limits.rows || this.#givenBytes + bytes > this.limits.bytes) return null;
    const begins = new Map(this.#rows.map((row) => [row.id, row.n]));
    const given = [[entries, bytes], ...this.#given];
    this.reset();
    for (const [batch, size] of given) this.apply(batch, size);
    return (id) => this.rowAt(begins.get(id) ?? 0);
  }

  /** Whether older entries may be taken in. */
  get growable() {
    return this.#given !== null;
  }

  #remember(entries, bytes) {
    if (this.#given === null) return;
    this.#given.push([entries, bytes]);
    this.#givenBytes += bytes;
    if (this.received + entries.length > this.limits.rows || this.#givenBytes > this.limits.bytes) this.#given = null;
  }

  /** The id of the row with this event, or of the row before it. */
  rowAt(n) {
    let low = 0;
    let high = this.#rows.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#rows[middle].n <= n) low = middle + 1;
      else high = middle;
    }
    return this.#base + Math.max(0, low - 1);
  }

  #hole(first, last, at) {
    this.missing += last - first + 1;
    this.#push({ n: first, last, at, kind: 'hole', first, event: { first, last } }, 100);
  }

  #take(n, at, event, share) {
    const kind = String(event.kind ?? '');
    if (kind === 'error' || kind === 'gap' || failed(event)) this.errors += 1;
    if (kind === 'tool_result') {
      const row = this.#calls.get(event.call_id);
      if (row) {
        this.#calls.delete(event.call_id);
        row.result = slim(event);
        row.resultAt = at;
        row.resultN = n;
        this.#grow(row, share);
        return row;
      }
    }
    const merge = MERGED[kind];
    const tail = this.#rows.at(-1);
    if (kind === 'thought' && tail?.kind === kind) {
      this.#think(tail, n, at, event, share);
      return tail;
    }
    if (merge && tail?.kind === kind && merge(tail.event) === merge(event)) {
      tail.event = slim(event);        // the newest says it all
      tail.last = n;
      tail.at = at;
      tail.count += 1;
      tail.version += 1;
      if (kind === 'result_chunk') tail.bytes += (event.data ?? '').length;
      return tail;
    }
    const row = this.#push({ n, last: n, at, kind, event: slim(event) }, share);
    if (kind === 'result_chunk') row.bytes = (event.data ?? '').length;
    if (kind === 'tool_call') this.#calls.set(event.call_id, row);
    return row;
  }

  /** Thoughts in a row are folded into one row that has the text of each. */
  #think(tail, n, at, event, share) {
    tail.texts ??= [tail.event.text];
    tail.texts.push(event.text);
    if (tail.texts.length > THOUGHTS) tail.texts.shift();
    tail.event = slim(event);
    tail.last = n;
    tail.at = at;
    tail.count += 1;
    this.#grow(tail, share);
  }

  #push(row, share) {
    row.id = this.next;
    row.version = 0;
    row.count = 1;
    row.weight = 0;
    this.#rows.push(row);
    this.#grow(row, share + 200);
    row.version = 0;
    return row;
  }

  #grow(row, share) {
    row.weight += share;
    row.version += 1;
    this.#bytes += share;
  }

  #trim() {
    const { rows, bytes } = this.limits;
    if (this.#rows.length <= rows && this.#bytes <= bytes) return;
    this.#given = null;
    let cut = 0;
    let left = this.#bytes;
    // A tenth more than needed: cutting the front of a long array is not for every event.
    const most = Math.floor(rows * 0.9);
    while (cut < this.#rows.length - 1 && (this.#rows.length - cut > most || left > bytes * 0.9)) {
      const row = this.#rows[cut];
      left -= row.weight;
      this.dropped += row.kind === 'hole' ? 0 : row.count + (row.result && row.kind === 'tool_call' ? 1 : 0);
      if (this.#calls.get(row.event.call_id) === row) this.#calls.delete(row.event.call_id);
      cut += 1;
    }
    this.#rows.splice(0, cut);
    this.#base += cut;
    this.#bytes = left;
  }
}

/** True for an event that tells of something gone wrong. */
export function failed(event) {
  return (event.kind === 'tool_result' && event.error !== null && event.error !== undefined)
    || (event.kind === 'log' && (event.level === 'error' || event.level === 'critical'));
}

/** What a row needs of an event: the rest is the same in each, or is shown nowhere. */
function slim(event) {
  const { job_id: _job, session_id: _session, trace_id: _trace, redelivered: _again, id: _id, kind: _kind, ...rest } = event;
  return rest;
}
