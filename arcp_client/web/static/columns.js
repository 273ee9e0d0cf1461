/** Lets the user choose the columns of the job list, and remembers the choice in the browser. */

import { el } from './dom.js';
import { COLUMNS } from './table.js';

const KEY = 'arcp-client.web/columns';
const FIXED = new Set(['job', 'status']);

/** The hidden columns that were chosen last. */
function remembered() {
  try {
    const found = JSON.parse(localStorage.getItem(KEY) ?? '[]');
    const known = new Set(COLUMNS.map(({ key }) => key));
    return new Set(Array.isArray(found) ? found.filter((key) => known.has(key) && !FIXED.has(key)) : []);
  } catch {                                  // storage is blocked, or another program wrote there
    return new Set();
  }
}

/** A disclosure with a checkbox for each column; `table` gets a class `hide-…` for each hidden one. */
export function columnChooser(table) {
  const hidden = remembered();
  const apply = () => {
    for (const { key } of COLUMNS) table.classList.toggle(`hide-${key}`, hidden.has(key));
  };
  const boxes = COLUMNS.filter(({ key }) => !FIXED.has(key)).map(({ key, label }) => {
    const box = el('input', { type: 'checkbox', checked: !hidden.has(key), on: { change: () => choose(key, box.checked) } });
    return el('label', { class: 'check' }, box, el('span', {}, label));
  });

  function choose(key, shown) {
    if (shown) hidden.delete(key);
    else hidden.add(key);
    apply();
    try {
      localStorage.setItem(KEY, JSON.stringify([...hidden]));
    } catch { /* not remembered, then */ }
  }

  apply();
  return el('details', { class: 'menu' }, el('summary', { class: 'button small' }, 'Columns'), el('div', { class: 'menu-items', role: 'group', 'aria-label': 'Columns' }, boxes));
}
