/** Shows what a job was given and when what happened: input, lease in full, times. */

import { copyButton } from './copy.js';
import { el, put, show } from './dom.js';
import { parse, write } from './numbers.js';
import { duration, millis, pretty } from './text.js';

const NONE = 'The dashboard has the input of the jobs that were submitted here. Runtimes do not tell it of others.';

/** The panel. `load(path)` asks for the input, once; `update(detail)` draws the times. */
export function originPanel() {
  const input = el('pre', { class: 'result foreign', tabindex: 0, 'aria-label': 'Input' });
  const unknown = el('p', { class: 'muted' }, NONE);
  const lease = el('pre', { class: 'result foreign', tabindex: 0, 'aria-label': 'Lease' });
  const times = el('dl', { class: 'times' });
  let given = null;
  let granted = {};
  const copyInput = copyButton('Copy the input', () => write(given?.input ?? null, 2));
  const copyLease = copyButton('Copy the lease', () => write(granted, 2));
  const element = el('details', { class: 'panel more' },
    el('summary', {}, 'Input, lease and times'),
    el('h3', {}, 'Input'), unknown, input, copyInput,
    el('h3', {}, 'Lease'), lease, copyLease,
    el('h3', {}, 'Times'), times);

  function draw() {
    show(input, given !== null);
    show(copyInput, given !== null);
    show(unknown, given === null);
    if (given !== null) put(input, pretty(given.input, 200000));
    put(lease, pretty(granted, 200000));
  }

  return {
    element,
    get given() {
      return given;
    },
    async load(path) {
      try {
        const response = await fetch(new URL(path, document.baseURI), { credentials: 'same-origin', cache: 'no-store' });
        if (response.ok) given = parse(await response.text());
      } catch { /* shown as unknown */ }
      draw();
    },
    update(detail) {
      const limits = detail.expires_at ? { expires_at: detail.expires_at } : {};
      granted = { ...detail.lease, ...limits };
      draw();
      const created = millis(detail.created_at);
      const rows = [['Accepted', created], ['First event', millis(detail.began_at)], ['Last event', millis(detail.last_at)], ['Ended', millis(detail.ended_at)], ['Lease until', millis(detail.expires_at)]];
      times.replaceChildren(...rows.filter(([, at]) => at !== null).map(([name, at]) => el('div', {}, el('dt', {}, name),
        el('dd', {}, new Date(at).toLocaleString([], { dateStyle: 'medium', timeStyle: 'medium' }), el('span', { class: 'muted' }, ` · ${new Date(at).toISOString()}${created !== null && at > created ? ` · after ${duration((at - created) / 1000)}` : ''}`)))));
    },
  };
}
