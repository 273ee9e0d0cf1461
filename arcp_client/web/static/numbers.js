/** Parses and writes JSON without changing the digits of its numbers. Pure. */

/** A piece of JSON as it was written: a number that a double would change, or what a person typed. */
export class RawJson {
  constructor(text) {
    this.text = text;
  }

  valueOf() {                          // near enough for bars and for sorting
    return Number(this.text);
  }

  toString() {
    return this.text;
  }
}

// A quick look for a number that may not be what a double makes of it, then each token for itself.
const ODD = /(?:^|[:[,])\s*(?:-0|-?\d{16}|-?\d+[.eE])/;
const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
const MARK = [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16)).join('-');

/** Like `JSON.parse`; a number that JavaScript would write otherwise is a `RawJson`. */
export function parse(text) {
  const value = JSON.parse(text);            // says what is no JSON, and is enough for most texts
  if (!ODD.test(text)) return value;
  let odd = false;
  const marked = text.replace(TOKEN, (token) => {
    if (token[0] === '"' || String(Number(token)) === token) return token;
    odd = true;
    return `"${MARK}${token}"`;
  });
  if (!odd) return value;
  try {
    return JSON.parse(marked, (_, each) => (typeof each === 'string' && each.startsWith(MARK) ? new RawJson(each.slice(MARK.length)) : each));
  } catch {                                  // nested deeper than a reviver can follow
    return value;
  }
}

/** Like `JSON.stringify`; a `RawJson` is written as it is. */
export function write(value, indent = 0) {
  const raw = [];
  const text = JSON.stringify(value, (_, each) => (each instanceof RawJson ? `${MARK}${raw.push(each.text) - 1}` : each), indent) ?? '';
  return raw.length ? text.replaceAll(new RegExp(`"${MARK}(\\d+)"`, 'g'), (_, at) => raw[at]) : text;
}

/** The number that a value is, exact or not; null for what is none or is beyond all doubles. */
export function num(value) {
  const found = value instanceof RawJson ? Number(value.text) : value;
  return typeof found === 'number' && Number.isFinite(found) ? found : null;
}
