/** Formats exact amounts of money, which are decimal texts, and picks what a list shows. Pure. */

import { count } from './text.js';

/** A decimal text as a number for sorting and bars; null for what is none. */
export function numeric(text) {
  if (text === null || text === undefined || text === '') return null;
  const value = Number(text);
  return Number.isFinite(value) ? value : null;
}

/** How to write amounts that stand together: as money if one of them has decimals. */
export function amounts(values) {
  const whole = values.every((value) => value === null || Number.isInteger(value));
  const format = new Intl.NumberFormat('en', { minimumFractionDigits: whole ? 0 : 2, maximumFractionDigits: 4 });
  return (text) => {
    const value = numeric(text);
    if (value === null) return '?';
    return value !== 0 && Math.abs(value) < 0.0001 ? String(text).slice(0, 24) : format.format(String(text));
  };
}

/**
 * What the list shows of a job's money: `{share, left, spent, counted, tone}`; the texts are empty if
 * unknown. `counted` are its tokens.
 *
 * Of several currencies, the gauge shows the one with the smallest share left.
 */
export function moneyLook(row) {
  const meters = row.meters ?? [];
  let share = null;
  let left = '';
  for (const meter of meters) {
    const granted = numeric(meter.granted);
    const rest = numeric(meter.left);
    if (rest === null) continue;
    const part = granted > 0 ? Math.min(1, Math.max(0, rest / granted)) : 0;
    if (share !== null && part >= share) continue;
    share = part;
    const amount = amounts([granted, rest]);
    left = `${amount(meter.left)}${granted === null ? '' : ` of ${amount(meter.granted)}`} ${meter.currency} left`;
  }
  const spent = meters.filter(({ spent: much }) => numeric(much) > 0)
    .map((meter) => `${amounts([numeric(meter.spent)])(meter.spent)} ${meter.currency}`);
  const counted = row.tokens === null || row.tokens === undefined ? '' : `${tokens(row.tokens)} tokens`;
  const scarce = share !== null && (share < 0.2 || row.reason?.code === 'budget');
  const tone = share !== null && share <= 0 ? 'error' : scarce ? 'warn' : 'plain';
  return { share, left, spent: spent.join(' · '), counted, tone };
}

function tokens(text) {
  const value = Number(text);
  return Number.isFinite(value) ? new Intl.NumberFormat('en').format(text) : count(text);
}
