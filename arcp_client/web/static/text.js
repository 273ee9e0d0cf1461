/** Formats values as short texts. Pure. */

import { RawJson, num, write } from './numbers.js';

const number = new Intl.NumberFormat('en', { maximumFractionDigits: 3 });

/** 12345.6789 → "12,345.679"; what is no number stays what it is. */
export function count(value) {
  if (num(value) === null) return String(value);
  return number.format(value instanceof RawJson ? value.text : value);   // a text is formatted digit by digit
}

/** "1 event", "2 events". */
export function plural(n, word) {
  return `${count(n)} ${word}${num(n) === 1 ? '' : 's'}`;
}

/** Bytes as "512 B", "1.5 KiB", "3 MiB". */
export function bytes(n) {
  let value = num(n);
  if (value === null) return '';
  for (const unit of ['B', 'KiB', 'MiB', 'GiB']) {
    if (Math.abs(value) < 1024 || unit === 'GiB') {
      return `${unit === 'B' ? value : Math.round(value * 10) / 10} ${unit}`;
    }
    value /= 1024;
  }
  return '';
}

/** Seconds as "0.12 s", "12 s", "3 min 20 s", "2 h 5 min", "3 d 4 h". */
export function duration(seconds) {
  if (num(seconds) === null) return '';
  const s = Math.max(0, num(seconds));
  if (s < 1) return `${s.toFixed(2)} s`;
  if (s < 10) return `${Math.round(s * 10) / 10} s`;
  if (s < 60) return `${Math.floor(s)} s`;
  const minutes = Math.floor(s / 60);
  if (minutes < 60) return join(minutes, 'min', Math.floor(s % 60), 's');
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return join(hours, 'h', minutes % 60, 'min');
  return join(Math.floor(hours / 24), 'd', hours % 24, 'h');
}

function join(a, unit, b, smaller) {
  return b ? `${a} ${unit} ${b} ${smaller}` : `${a} ${unit}`;
}

/** Milliseconds since 1970 as the local "14:03:27.120". */
export function clock(ms) {
  if (num(ms) === null) return '';
  const date = new Date(num(ms));
  const two = (n) => String(n).padStart(2, '0');
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}.${String(date.getMilliseconds()).padStart(3, '0')}`;
}

/** An ISO time or milliseconds as milliseconds; null for what is no time. */
export function millis(value) {
  if (num(value) !== null) return num(value);
  if (typeof value !== 'string') return null;
  const ms = Date.parse(value);
  return Number.isNaN(ms) ? null : ms;
}

// C0 and C1 controls but tab and line feed, and the marks that reorder text: with them an agent
// could make one thing read as another.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/** Foreign text with every invisible control made visible. */
export function visible(value) {
  return String(value ?? '').replace(HIDDEN, (c) => {
    const code = c.codePointAt(0);
    if (code < 0x20) return String.fromCodePoint(0x2400 + code);
    return `⟨U+${code.toString(16).toUpperCase().padStart(4, '0')}⟩`;
  });
}

/** At most `limit` characters of foreign text, made visible; says how much was cut. */
export function clip(value, limit) {
  const text = String(value ?? '');
  if (text.length <= limit) return visible(text);
  return `${visible(text.slice(0, whole(text, limit)))}… (${plural(text.length - limit, 'more character')})`;
}

/** The first line, at most `limit` characters. */
export function oneLine(value, limit = 240) {
  const text = String(value ?? '');
  const head = text.slice(0, whole(text, limit));
  const flat = head.replace(/\s+/g, ' ').trim();
  return visible(flat) + (text.length > head.length ? '…' : '');
}

function whole(text, limit) {
  const last = text.charCodeAt(limit - 1);
  return last >= 0xd800 && last <= 0xdbff ? limit - 1 : limit;  // no half of a pair
}

/** A JSON value in one line of about `limit` characters, without writing out the rest of it. */
export function preview(value, limit = 160) {
  const parts = [];
  let left = limit;
  const add = (text) => {
    parts.push(text);
    left -= text.length;
  };
  const walk = (v, depth) => {
    if (left <= 0) return;
    if (typeof v === 'string') add(depth ? JSON.stringify(v.slice(0, whole(v, left + 1))) : v.slice(0, whole(v, left + 1)));
    else if (v === null || typeof v !== 'object' || v instanceof RawJson) add(String(v));
    else if (depth > 4) add('…');
    else {
      const isList = Array.isArray(v);
      add(isList ? '[' : '{');
      let first = true;
      for (const key in v) {
        if (left <= 0) break;
        if (!first) add(', ');
        first = false;
        if (!isList) add(`${key.slice(0, 80)}: `);
        walk(v[key], depth + 1);
      }
      add(isList ? ']' : '}');
    }
  };
  walk(value, 0);
  return oneLine(parts.join(''), limit);
}

/** A JSON value written out for reading, at most `limit` characters. */
export function pretty(value, limit = 20000) {
  if (typeof value === 'string') return clip(value, limit);
  let text;
  try {
    text = write(value, 2);
  } catch {                                  // JSON.parse takes what is nested deeper than this does
    return preview(value, limit);
  }
  return clip(text, limit);
}
