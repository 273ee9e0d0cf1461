/** Shows the result of a job; a streamed one grows as its chunks arrive, Markdown is rendered. */

import { copyButton } from './copy.js';
import { el, put, set, show } from './dom.js';
import { looksLikeMarkdown, markdownBox } from './markdown.js';
import { bytes, count, plural, pretty, visible } from './text.js';

/** `update(state, href)`: `href` is where the whole result can be had, if anywhere. */
export function resultPanel() {
  const about = el('p', { class: 'muted' });
  const text = el('pre', { class: 'result foreign', tabindex: 0, 'aria-label': 'Result' });
  const rendered = markdownBox();
  const box = el('div', { class: 'result rendered', tabindex: 0, role: 'region', 'aria-label': 'Result, rendered', hidden: true }, rendered.element);
  const link = el('a', { class: 'button small', href: '#/', download: true, hidden: true }, 'Download the result');
  const toggle = el('button', { type: 'button', class: 'button small', hidden: true, on: { click: () => { plain = !plain; draw(); } } }, 'Show as text');
  const copy = copyButton('Copy', () => shown);
  const element = el('section', { class: 'panel', 'aria-labelledby': 'result-title', hidden: true },
    el('div', { class: 'panel-head' }, el('h2', { id: 'result-title' }, 'Result'), el('span', { class: 'grow' }), toggle, copy, link), about, text, box);
  let drawn = null;
  let plain = false;
  let shown = '';
  let markdown = false;

  function draw() {
    const render = markdown && !plain;
    show(toggle, markdown);
    put(toggle, plain ? 'Show rendered' : 'Show as text');
    show(text, !render && shown !== '');
    show(box, render);
    const view = render ? box : text;
    const end = view.scrollTop + view.clientHeight >= view.scrollHeight - 4;
    if (render) rendered.update(shown);
    else put(text, shown);
    if (end) view.scrollTop = view.scrollHeight;
    set(copy, 'hidden', shown === '');
  }

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
        if (drawn === stream.size) return;
        drawn = stream.size;
        shown = stream.binary ? '' : visible(stream.text);
        markdown = !stream.binary && looksLikeMarkdown(stream.text);
        draw();
      } else if (value) {
        put(about, value.summary ? visible(value.summary) : '');
        show(about, Boolean(value.summary));
        if (drawn === value) return;
        drawn = value;
        const empty = value.value === null || value.value === undefined;
        shown = empty ? 'The job ended well and gave no value.' : pretty(value.value, 32768);
        markdown = typeof value.value === 'string' && looksLikeMarkdown(value.value);
        draw();
      } else drawn = null;
    },
  };
}
