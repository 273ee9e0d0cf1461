/** Renders the visible rows of a long list. */

const OVERSCAN = 8;
const MOST_OPEN = 40;

/**
 * Show a window of a list whose rows are one line high unless opened.
 *
 * `source` gives `count()`, `idAt(index)`, `indexOf(id)` (or -1) and `versionOf(id)`; ids only grow. `make(id)`
 * makes the element of a row and `fill(element, id, open)` brings it up to date. The list follows its
 * end until the user scrolls up. The row that has the focus stays in the document wherever it is.
 */
export class Scroller {
  #source;
  #make;
  #fill;
  #shown = new Map();          // id → {element, version, open}
  #open = new Map();           // id → how many px more than one line
  #anchor = null;
  #row = 28;
  #resize;
  #painted = 0;
  #end = 0;                    // where following it last went

  constructor({ viewport, list, source, make, fill, onFollow = () => {}, onTop = () => {} }) {
    this.viewport = viewport;
    this.list = list;
    this.follow = true;
    this.#source = source;
    this.#make = make;
    this.#fill = fill;
    this.onFollow = onFollow;
    this.onTop = onTop;
    viewport.addEventListener('scroll', () => this.#scrolled(), { passive: true });
    viewport.addEventListener('keydown', (event) => this.#key(event));
    list.addEventListener('click', (event) => {
      const line = event.target.closest('.line');
      if (line) this.toggle(Number(line.parentElement.dataset.id));
    });
    this.#resize = new ResizeObserver(() => this.#measure());
    this.#resize.observe(viewport);
  }

  stop() {
    this.#resize.disconnect();
  }

  /** Bring the window up to date with the source. */
  render() {
    const { viewport, list } = this;
    if (this.follow && viewport.scrollTop < this.#end - 3 && viewport.scrollHeight > this.#end + viewport.clientHeight - 3) {
      this.#stay();                          // the reader went up, and the event that says so comes later
    }
    const source = this.#source;
    const total = source.count();
    for (const id of this.#open.keys()) if (source.indexOf(id) < 0) this.#open.delete(id);
    const extra = this.#extras();
    const height = total * this.#row + extra.sum;
    list.style.setProperty('block-size', `${height}px`);
    if (this.follow) {
      viewport.scrollTop = height;
      this.#end = viewport.scrollTop;
    } else this.#hold(extra);
    this.#paint(total, extra);
  }

  /** What the reader looks at stays in place when rows above it go, come or grow. */
  #hold(extra) {
    const anchor = this.#anchor;
    if (!anchor) return;
    const index = this.#source.indexOf(anchor.id);
    const top = index < 0 ? 0 : this.#offset(index, extra);
    if (index < 0) this.viewport.scrollTop = 0;
    else if (top !== anchor.top) this.viewport.scrollTop += top - anchor.top;
    if (index < 0) this.#remember();
    else anchor.top = top;
  }

  #paint(total, extra) {
    const { viewport, list } = this;
    const source = this.#source;
    const top = viewport.scrollTop;
    const from = Math.max(0, this.#indexAt(top, extra, total) - OVERSCAN);
    const to = Math.min(total, this.#indexAt(top + viewport.clientHeight, extra, total) + 1 + OVERSCAN);
    const wanted = new Map();
    for (let index = from; index < to; index += 1) wanted.set(source.idAt(index), index);
    const focused = this.#focusedId();
    if (focused !== null && !wanted.has(focused)) {
      const index = source.indexOf(focused);
      if (index >= 0) wanted.set(focused, index);
      else viewport.focus({ preventScroll: true });      // its row is gone: stay near
    }
    for (const [id, { element }] of this.#shown) {
      if (!wanted.has(id)) {
        if (this.#open.has(id)) this.#resize.unobserve(element);
        element.remove();
        this.#shown.delete(id);
      }
    }
    const order = [...wanted].sort((a, b) => a[1] - b[1]);
    let place = list.firstChild;
    const grown = [];
    for (const [id, index] of order) {
      let shown = this.#shown.get(id);
      const version = source.versionOf(id);
      const open = this.#open.has(id);
      if (!shown) {
        shown = { element: this.#make(id), version: -1, open: false };
        shown.element.dataset.id = id;
        this.#shown.set(id, shown);
      }
      if (shown.version !== version || shown.open !== open) {
        this.#fill(shown.element, id, open);
        if (open !== shown.open || open) grown.push([id, shown.element]);
        shown.version = version;
        shown.open = open;
      }
      const { element } = shown;
      element.style.setProperty('transform', `translateY(${this.#offset(index, extra)}px)`);
      element.setAttribute('aria-posinset', index + 1);
      element.setAttribute('aria-setsize', total);
      if (element === place) place = place.nextSibling;
      else list.insertBefore(element, place);
    }
    this.#painted = top;
    for (const [id, element] of grown) if (this.#open.has(id)) this.#resize.observe(element);
    if (grown.length) this.#measure();
  }

  /** Open a row, or close it. */
  toggle(id) {
    const index = this.#source.indexOf(id);
    if (index < 0) return;
    if (this.#open.has(id)) {
      const shown = this.#shown.get(id);
      if (shown) this.#resize.unobserve(shown.element);
      this.#open.delete(id);
    } else {
      if (this.#open.size >= MOST_OPEN) this.#open.delete(this.#open.keys().next().value);
      this.#open.set(id, 0);
      if (index < this.#source.count() - 1) this.#stay();
    }
    this.render();
  }

  /** Go to the end, and stay there as it moves. */
  toEnd() {
    this.#following(true);
    this.#anchor = null;
    this.render();
  }

  /** Open a row and bring it into sight, without following the end. */
  show(index) {
    this.#following(false);
    const id = this.#source.idAt(index);
    if (!this.#open.has(id)) this.toggle(id);
    this.focusRow(index);
  }

  /** Rows that are now in the document. */
  get mounted() {
    return this.#shown.size;
  }

  /** Rows have new ids: what is open, has the focus and is looked at stays the same. */
  rename(renamed) {
    const focused = this.#focusedId();
    this.#open = new Map([...this.#open].map(([id, more]) => [renamed(id), more]));
    if (this.#anchor) this.#anchor = { ...this.#anchor, id: renamed(this.#anchor.id) };
    const shown = [...this.#shown.values()];
    this.#shown.clear();
    for (const { element } of shown) {
      const id = renamed(Number(element.dataset.id));
      if (this.#shown.has(id)) element.remove();
      else this.#shown.set(id, { element, version: -1, open: this.#open.has(id) });
      element.dataset.id = id;
    }
    if (focused !== null) this.#shown.get(renamed(focused))?.element.querySelector('.line').focus({ preventScroll: true });
  }

  /** Forget what was opened and where the reader was. */
  clear() {
    this.#open.clear();
    this.#anchor = null;
    this.#following(true);
  }

  #stay() {
    this.#following(false);
    this.#remember();
  }

  #following(on) {
    if (on) this.#end = 0;
    if (this.follow === on) return;
    this.follow = on;
    this.onFollow(on);
  }

  #scrolled() {
    const { viewport } = this;
    const end = viewport.scrollTop + viewport.clientHeight >= viewport.scrollHeight - 3;
    this.#following(end);
    this.#remember();
    if (viewport.scrollTop < viewport.clientHeight && !end) this.onTop();
    if (Math.abs(viewport.scrollTop - this.#painted) > this.#row / 2) this.#paint(this.#source.count(), this.#extras());
  }

  #remember() {
    const total = this.#source.count();
    if (!total) return;
    const extra = this.#extras();
    const index = Math.min(total - 1, this.#indexAt(this.viewport.scrollTop, extra, total));
    this.#anchor = { id: this.#source.idAt(index), top: this.#offset(index, extra) };
  }

  #measure() {
    const probe = Number.parseFloat(getComputedStyle(this.list).getPropertyValue('grid-auto-rows'));
    let changed = false;
    if (probe > 0 && probe !== this.#row) {
      this.#row = probe;
      changed = true;
    }
    for (const id of this.#open.keys()) {
      const shown = this.#shown.get(id);
      if (!shown?.open) continue;
      const more = Math.max(0, shown.element.offsetHeight - this.#row);
      if (more !== this.#open.get(id)) {
        this.#open.set(id, more);
        changed = true;
      }
    }
    if (changed) this.render();
  }

  /** Opened rows as sorted `[index, more px]`, and their sum. */
  #extras() {
    const found = [];
    let sum = 0;
    for (const [id, more] of this.#open) {
      found.push([this.#source.indexOf(id), more]);
      sum += more;
    }
    found.sort((a, b) => a[0] - b[0]);
    return { found, sum };
  }

  #offset(index, { found }) {
    let top = index * this.#row;
    for (const [at, more] of found) {
      if (at >= index) break;
      top += more;
    }
    return top;
  }

  #indexAt(y, { found }, total) {
    let left = y;
    let from = 0;
    for (const [at, more] of found) {
      const until = (at - from) * this.#row;
      if (left < until) break;
      left -= until;
      from = at;
      if (left < this.#row + more) return at;
      left -= this.#row + more;
      from = at + 1;
    }
    return Math.max(0, Math.min(total - 1, from + Math.floor(left / this.#row)));
  }

  #focusedId() {
    const row = document.activeElement?.closest?.('.row');
    return row && this.list.contains(row) ? Number(row.dataset.id) : null;
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest('.detail')) return;
    const page = Math.max(1, Math.floor(this.viewport.clientHeight / this.#row) - 1);
    const total = this.#source.count();
    const focused = this.#focusedId();
    const here = focused === null ? null : this.#source.indexOf(focused);
    const first = this.#indexAt(this.viewport.scrollTop, this.#extras(), total);
    const start = this.follow ? total - 1 : first;
    const goes = {
      ArrowDown: here === null ? start : here + 1,
      ArrowUp: here === null ? start : here - 1,
      PageDown: (here ?? start) + page,
      PageUp: (here ?? start) - page,
      Home: 0,
      End: total - 1,
    }[event.key];
    if (goes === undefined || !total) return;
    event.preventDefault();
    this.focusRow(Math.max(0, Math.min(total - 1, goes)));
  }

  /** Give the focus to the row at an index, and bring it into sight. */
  focusRow(index) {
    const { viewport } = this;
    const extra = this.#extras();
    const top = this.#offset(index, extra);
    const id = this.#source.idAt(index);
    const height = this.#row + (this.#open.get(id) ?? 0);
    const last = index === this.#source.count() - 1;
    if (last) this.#following(true);
    else this.#following(false);
    if (top < viewport.scrollTop) viewport.scrollTop = top;
    else if (top + height > viewport.scrollTop + viewport.clientHeight) {
      viewport.scrollTop = Math.min(top, top + height - viewport.clientHeight);
    }
    this.#remember();
    this.render();
    this.#shown.get(id)?.element.querySelector('.line').focus({ preventScroll: true });
  }
}
