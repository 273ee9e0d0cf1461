/** Asks a question in a dialog, then returns the focus to where it was. */

import { el } from './dom.js';

let numbers = 0;

/**
 * Ask before something is done that cannot be undone.
 *
 * Resolves with the entered note (perhaps empty), or with null if the person does not want it. The
 * button that changes nothing has the focus first.
 */
export function confirm({ title, text, yes, no, note }) {
  const id = `dialog-${(numbers += 1)}`;
  const opener = document.activeElement;
  const input = note ? el('input', { id: `${id}-note`, type: 'text', maxlength: 500, autocomplete: 'off' }) : null;
  const keep = el('button', { type: 'submit', class: 'button', value: 'no', autofocus: true }, no);
  const go = el('button', { type: 'submit', class: 'button danger', value: 'yes' }, yes);
  const form = el('form', { method: 'dialog' },
    el('h2', { id: `${id}-title` }, title),
    el('p', { id: `${id}-text`, class: 'foreign' }, text),
    input && el('p', { class: 'field' }, el('label', { for: input.id }, note), input),
    el('p', { class: 'buttons' }, keep, go));
  // Enter in the note is no yes: the first button of the form answers it, which is the safe one.
  const dialog = el('dialog', { class: 'dialog', 'aria-labelledby': `${id}-title`, 'aria-describedby': `${id}-text` }, form);
  document.body.append(dialog);
  return new Promise((resolve) => {
    dialog.addEventListener('close', () => {
      const answer = dialog.returnValue === 'yes' ? (input?.value.trim() ?? '') : null;
      dialog.remove();
      if (opener?.isConnected) opener.focus();
      resolve(answer);
    });
    dialog.showModal();
    keep.focus();
  });
}

/** Show something to read until it is closed. */
export function present(title, ...content) {
  const id = `dialog-${(numbers += 1)}`;
  const opener = document.activeElement;
  const close = el('button', { type: 'submit', class: 'button', autofocus: true }, 'Close');
  const dialog = el('dialog', { class: 'dialog', 'aria-labelledby': `${id}-title` },
    el('form', { method: 'dialog' }, el('h2', { id: `${id}-title` }, title), ...content, el('p', { class: 'buttons' }, close)));
  document.body.append(dialog);
  dialog.addEventListener('close', () => {
    dialog.remove();
    if (opener?.isConnected) opener.focus();
  });
  dialog.showModal();
  close.focus();
}
