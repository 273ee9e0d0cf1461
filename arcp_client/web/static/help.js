/** The keys of the dashboard, for the dialog that lists them. */

import { present } from './dialog.js';
import { el } from './dom.js';

// No key works everywhere: a letter does something only where its part of the page has the focus.
export const KEYS = [
  ['Anywhere', [['Tab', 'next control'], ['Escape', 'close a dialog']]],
  ['Jobs', [['↓ ↑', 'next or previous job, from a job'], ['Enter', 'open the job']]],
  ['Timeline', [
    ['↓ ↑', 'next or previous event'],
    ['Page Down, Page Up', 'a screenful on or back'],
    ['Home', 'the oldest event'],
    ['End', 'the newest event, and follow'],
    ['Enter or Space', 'open or close the event'],
    ['p', 'pause or resume'],
  ]],
];

export function showKeys() {
  present('Keys', el('div', { class: 'keys' }, KEYS.map(([where, keys]) => el('section', {},
    el('h3', {}, where),
    el('dl', {}, keys.map(([key, what]) => el('div', {}, el('dt', {}, el('kbd', {}, key)), el('dd', {}, what))))))));
}
