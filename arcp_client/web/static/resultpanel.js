/** Shows the result of a job; a streamed one grows as its chunks arrive. */

import { el, put, show } from './dom.js';
import { bytes, count, plural, pretty, visible } from './text.js';

/** `update(state, href)`: `href` is where the whole result can be had, if anywhere. */
export function resultPanel() {
  const about = el('p', { class: 'muted' });
  const text = el('pre', { class: 'result foreign', tabindex: 0, 'aria-label': 'Result' });
  const link = el('a', { class: 'button small', href: '#/', download: true, hidden: true }, 'Download the result');
  const element = el('section', { class: 'panel', 'aria-labelledby': 'result-title', hidden: true },
    el('div', { class: 'panel-head' }, el('h2', { id: 'result-title' }, 'Result'), el('span', { class: 'grow' }), link), about, text);
  let drawn = null;

  return {
    element,
    update(state, href) {
      const streams = [...state.streams.byId.values()];
      const stream = streams.at(-1);
      const value = state.value;
      show(element, Boolean(stream || value));
      show(link, Boolean(value && href));
      if (value && href) link.setAttribute('href', href);
      if (stream) {
        const parts = [`${plural(stream.chunks, 'piece')}, ${bytes(stream.size)}`];
        parts.push(stream.done ? 'complete' : 'still coming');
        if (stream.missing) parts.push(`${plural(stream.missing, 'piece')} missing`);
        if (stream.cut) parts.push(`the first ${count(stream.cut)} characters are not shown`);
        if (value?.summary) parts.push(visible(value.summary));
        put(about, parts.join(' · '));
        show(text, !stream.binary);
        if (drawn === stream.size || stream.binary) return;
        drawn = stream.size;
        const end = text.scrollTop + text.clientHeight >= text.scrollHeight - 4;
        put(text, visible(stream.text));
        if (end) text.scrollTop = text.scrollHeight;
      } else if (value) {
        put(about, value.summary ? visible(value.summary) : '');
        show(about, Boolean(value.summary));
        if (drawn === value) return;
        drawn = value;
        const empty = value.value === null || value.value === undefined;
        put(text, empty ? 'The job ended well and gave no value.' : pretty(value.value, 32768));
      } else drawn = null;
    },
  };
}
