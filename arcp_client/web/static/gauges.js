/** Shows the lease and the budget of a job: grants, a countdown and meters. */

import { bars } from './bars.js';
import { el, icon, put, set, show } from './dom.js';
import { amounts, numeric } from './money.js';
import { num } from './numbers.js';
import { count, duration, millis, oneLine } from './text.js';

const SOON = 60;

/** The lease panel. `update(detail)` on new facts, `tick(now)` each second; `now` is the server's. */
export function leasePanel() {
  const grants = el('dl', { class: 'grants' });
  const none = el('p', { class: 'muted' }, 'No grants.');
  const word = el('span', { class: 'foreign' });
  const mark = el('span', { class: 'slot' }, icon('clock'));
  const expiry = el('p', { class: 'expiry', hidden: true }, mark, word);
  const meters = el('div', { class: 'meters' });
  const keys = el('p', { class: 'muted foreign', hidden: true });
  const drawMeters = bars(meters, 'meter', 'Budget');
  const element = el('section', { class: 'panel', 'aria-labelledby': 'lease-title' },
    el('h2', { id: 'lease-title' }, 'Lease and budget'), meters, expiry, grants, none, keys);
  let expires = null;
  let ended = false;
  let known = '';

  return {
    element,
    update(detail) {
      expires = millis(detail.expires_at);
      ended = detail.ended;
      drawMeters(detail.meters ?? [], meterLook);
      const lease = Object.entries(detail.lease ?? {});
      const now = JSON.stringify(lease);
      if (now !== known) {
        known = now;
        grants.replaceChildren(...lease.map(([name, patterns]) => el('div', {},
          el('dt', { class: 'foreign' }, oneLine(name, 80)),
          el('dd', {}, patterns.length ? patterns.slice(0, 50).map((p) => el('code', { class: 'foreign' }, oneLine(p, 200))) : 'nothing'))));
        show(none, lease.length === 0);
      }
      const names = detail.credentials ?? [];
      show(keys, names.length > 0);
      put(keys, names.length ? `Credentials: ${names.map((n) => oneLine(n, 40)).join(', ')} (values are never shown)` : '');
    },
    tick(now) {
      show(expiry, expires !== null);
      if (expires === null) return;
      const left = (expires - now) / 1000;
      const at = new Date(expires).toLocaleTimeString();
      put(word, left <= 0 ? `Lease expired at ${at}` : ended ? `Lease until ${at}` : `Lease expires in ${duration(Math.ceil(left))}, at ${at}`);
      set(expiry, 'class', `expiry${left <= 0 ? ' tone-error' : left < SOON && !ended ? ' tone-warn' : ''}`);
    },
  };
}

/** How a meter of the projection looks. Amounts are exact decimals, so they come as texts. */
function meterLook(meter) {
  const currency = oneLine(meter.currency, 16);
  const granted = numeric(meter.granted);
  const left = numeric(meter.left);
  const burn = meter.rate > 0 ? `spends ${rate(meter.rate)} ${currency} a second` : '';
  const amount = amounts([meter.granted, meter.left, meter.spent].map(numeric));
  const last = num(meter.seconds_left) !== null ? `lasts about ${duration(meter.seconds_left)} more` : '';
  const more = [burn, last].filter(Boolean).join(', ');
  if (left === null) return { share: null, title: currency, words: `${amount(meter.spent)} spent`, more };
  const share = granted > 0 ? Math.min(1, Math.max(0, left / granted)) : null;
  const tone = left <= 0 ? 'error' : share !== null && share < 0.2 ? 'warn' : 'plain';
  const of = granted === null ? '' : ` of ${amount(meter.granted)}`;
  const state = left <= 0 ? 'spent: ' : tone === 'warn' ? 'low: ' : '';
  return { share, title: currency, words: `${state}${amount(meter.left)}${of} left`, more, tone };
}

function rate(told) {
  const value = num(told);
  return value >= 0.01 ? count(Math.round(value * 1000) / 1000) : value.toPrecision(2);
}
