/** Returns the entries of a recording that are due. No clock. */

export class Player {
  /** `entries` have a time `t`, in seconds, that does not go back. */
  constructor(entries) {
    this.entries = entries;
    this.time = 0;
    this.next = 0;
    this.speed = 1;
    this.playing = false;
  }

  /** Seconds from the beginning to the last entry. */
  get length() {
    return this.entries.at(-1)?.t ?? 0;
  }

  get ended() {
    return this.next >= this.entries.length;
  }

  /** Let `seconds` pass; gives the entries that are due, and stops at the end. */
  advance(seconds) {
    if (!this.playing) return [];
    this.time = Math.min(this.length, this.time + seconds * this.speed);
    const due = this.#take(this.time);
    if (this.ended) this.playing = false;
    return due;
  }

  /** Go to a time; gives `{fresh, entries}`: `fresh` if the view has to begin anew. */
  seek(time) {
    const wanted = Math.min(this.length, Math.max(0, time));
    const fresh = wanted < this.time;
    if (fresh) this.next = 0;
    this.time = wanted;
    return { fresh, entries: this.#take(wanted) };
  }

  #take(until) {
    const from = this.next;
    let to = from;
    while (to < this.entries.length && this.entries[to].t <= until) to += 1;
    this.next = to;
    return this.entries.slice(from, to);
  }
}
