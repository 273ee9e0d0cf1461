/** Shows the tree of delegated jobs to which a job belongs, with costs rolled up. */

import { el, put, set, show } from './dom.js';
import { familyTree } from './family.js';
import { shortId } from './jobrow.js';
import { moneyLook } from './money.js';
import { jobHref } from './router.js';
import { statusBadge } from './status.js';
import { oneLine, plural } from './text.js';

const MOST = 200;
const amount = new Intl.NumberFormat('en', { maximumFractionDigits: 4 });

/** The panel. `update(jobs, id)` with the rows of the job list; hidden for a job without relatives. */
export function familyPanel() {
  const list = el('ul', { class: 'tree', role: 'list' });
  const total = el('span', { class: 'shown' });
  const element = el('section', { class: 'panel', 'aria-labelledby': 'family-title', hidden: true },
    el('div', { class: 'panel-head' }, el('h2', { id: 'family-title' }, 'Delegation'), total), list);
  let drawn = '';
  return {
    element,
    update(jobs, id) {
      const tree = familyTree(jobs, id).slice(0, MOST);
      show(element, tree.length > 1);
      if (tree.length < 2) return;
      put(total, `${plural(tree.length, 'job')}${costs(tree[0]) ? `, ${costs(tree[0])} in all` : ''}`);
      const now = JSON.stringify(tree.map(({ row, depth, spent, tokens, here }) => [row.job_id, row.status, row.label, depth, [...spent], tokens, here, row.meters]));
      if (now === drawn) return;
      drawn = now;
      list.replaceChildren(...tree.map(entry));
    },
  };
}

function entry(node) {
  const { row, depth, here } = node;
  const name = `${oneLine(row.agent || 'job', 60)}${row.label ? `: ${oneLine(row.label, 80)}` : ''}`;
  const { left } = moneyLook({ meters: row.meters });
  const id = el('span', { class: 'muted job foreign' }, shortId(row.job_id));
  const item = el('li', { 'aria-current': here ? 'page' : false },
    el('span', { class: 'tree-name' }, here ? el('strong', { class: 'foreign' }, name) : el('a', { class: 'foreign', href: jobHref(row.job_id), 'aria-label': `${name} ${oneLine(row.job_id, 120)}` }, name), ' ', id),
    statusBadge(row.status),
    el('span', { class: 'muted tree-money foreign' }, [costs(node), left].filter(Boolean).join(' · ')));
  item.style.setProperty('--depth', String(Math.min(depth, 8)));
  set(item, 'data-job', row.job_id);
  return item;
}

function costs({ spent, tokens }) {
  const parts = [...spent].map(([currency, much]) => `${amount.format(much)} ${oneLine(currency, 12)}`);
  if (tokens) parts.push(`${amount.format(tokens)} tokens`);
  return parts.join(', ');
}
