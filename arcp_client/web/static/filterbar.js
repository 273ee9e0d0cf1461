/** Lets the user choose the rows of the timeline: returns a predicate over rows. */

import { el } from './dom.js';
import { GROUPS, LEVELS, matcher } from './rows.js';

/** Kinds, lowest log level and a text; `changed(predicate)` is called with each choice. */
export function filterBar(changed) {
  const groups = new Set(GROUPS.map(([key]) => key));
  const text = el('input', { type: 'search', id: 'timeline-text', autocomplete: 'off', spellcheck: 'false', placeholder: 'Find in events' });
  const level = el('select', { id: 'timeline-level' }, LEVELS.map((name, i) => el('option', { value: i }, i ? `${name} and above` : 'all')));
  const tell = () => changed(matcher({ groups, level: Number(level.value), text: text.value }), all());
  const all = () => groups.size === GROUPS.length && level.value === '0' && !text.value.trim();
  const boxes = GROUPS.map(([key, label]) => {
    const box = el('input', { type: 'checkbox', id: `kind-${key}`, checked: true, on: { change: () => {
      if (box.checked) groups.add(key);
      else groups.delete(key);
      tell();
    } } });
    return el('label', { class: 'pill' }, box, el('span', {}, label));
  });
  text.addEventListener('input', tell);
  level.addEventListener('change', tell);
  const element = el('div', { class: 'filters' },
    el('fieldset', { class: 'pills' }, el('legend', { class: 'visually-hidden' }, 'Kinds of events'), boxes),
    el('span', { class: 'field-inline' }, el('label', { for: level.id }, 'Log level'), level),
    el('span', { class: 'field-inline grow' }, el('label', { for: text.id, class: 'visually-hidden' }, 'Find in events'), text));
  return { element, predicate: matcher({ groups, level: 0, text: '' }) };
}
