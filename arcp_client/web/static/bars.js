/** Draws a share from 0 to 1 as a bar with a text. */

import { el, put, set } from './dom.js';

/** A bar with a label and a text; `role` is 'progressbar' or 'meter'. */
export function bar(role, label) {
  const fill = el('span', { class: 'bar-fill' });
  const track = el('span', { class: 'bar-track', role, 'aria-valuemin': 0, 'aria-valuemax': 100, 'aria-label': label }, fill);
  const name = el('span', { class: 'bar-name foreign' });
  const text = el('span', { class: 'bar-text foreign' });
  const note = el('span', { class: 'bar-note foreign' });
  const element = el('div', { class: 'bar' }, el('div', { class: 'bar-words' }, name, text), track, note);
  return {
    element,
    /** `share` is null if the progress is unknown. */
    update({ share, words, title = '', more = '', tone = 'plain' }) {
      put(name, title);
      put(text, words);
      put(note, more);
      note.hidden = !more;
      set(track, 'aria-label', title || label);
      set(element, 'class', `bar bar-${tone}${share === null ? ' bar-unknown' : ''}`);
      const shown = share < 1 ? Math.min(share ?? 0, 0.97) : 1;    // a full bar says that all is done
      fill.style.setProperty('inline-size', `${shown * 100}%`);
      set(track, 'aria-valuenow', share === null ? null : Math.round(share * 100));
      set(track, 'aria-valuetext', words || null);
    },
  };
}

/** Keep as many bars in `box` as there are items, in order; `look` says what each shows. */
export function bars(box, role, label) {
  const made = [];
  return (items, look) => {
    while (made.length > items.length) made.pop().element.remove();
    while (made.length < items.length) {
      const one = bar(role, label);
      made.push(one);
      box.append(one.element);
    }
    items.forEach((item, i) => made[i].update(look(item)));
  };
}
