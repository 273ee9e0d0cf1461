/** Copies texts to the clipboard. */

import { el, put } from './dom.js';

/** A button that copies what `text()` gives, and says so. */
export function copyButton(label, text) {
  const word = el('span', {}, label);
  const button = el('button', { type: 'button', class: 'button small', on: { click: copy } }, word);
  let timer = null;
  async function copy() {
    const done = await toClipboard(await text());
    put(word, done ? 'Copied' : 'Could not copy');
    clearTimeout(timer);
    timer = setTimeout(() => put(word, label), 2000);
  }
  return button;
}

async function toClipboard(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch { /* no secure connection, or not allowed: the older way */ }
  const box = el('textarea', { class: 'visually-hidden', 'aria-hidden': 'true' });
  const before = document.activeElement;
  document.body.append(box);
  box.value = text;
  box.select();
  const done = document.execCommand('copy');
  box.remove();
  before?.focus({ preventScroll: true });
  return done;
}
