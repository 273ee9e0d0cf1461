/** Parses the JSON that a user typed, and reports where it is wrong. Pure. */

import { parse } from './numbers.js';

const TOKEN = /[ \t\r\n]*(?:([{}[\],:])|("(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[\da-fA-F]{4}))*")|(-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])|(?:true|false|null)(?!\w)))/y;
const CLOSES = { '}': '{', ']': '[' };

/** `{value}`, or `{message, line, column}` with both counted from 1. */
export function parseJson(text) {
  try {
    return { value: parse(text) };
  } catch {
    const { at, message } = fault(text);
    const before = text.slice(0, at).split('\n');
    return { message, line: before.length, column: before.at(-1).length + 1 };
  }
}

/** Browsers do not agree on whether and how they tell the place, so it is looked for here. */
function fault(text) {
  const open = [];
  let expects = 'a value';
  let mayEnd = false;                        // right after { or [
  for (let at = 0; ;) {
    TOKEN.lastIndex = at;
    const found = TOKEN.exec(text);
    const start = at + /^[ \t\r\n]*/.exec(text.slice(at))[0].length;
    if (!found) {
      if (start >= text.length && expects === 'the end') return { at: start, message: 'not JSON' };
      const what = start >= text.length ? 'the text ends' : `“${text.slice(start, start + 12).split('\n')[0]}” is unexpected`;
      return { at: start, message: `${what}; ${expects} was expected` };
    }
    const [, mark, string] = found;
    const wrong = { at: start, message: `“${found[0].trim().slice(0, 12)}” is unexpected; ${expects} was expected` };
    const closes = mark && CLOSES[mark] && CLOSES[mark] === open.at(-1) && (mayEnd || expects === 'a comma or the end of the list');
    if (closes) open.pop();
    else if (expects === 'a value') {
      if (mark === '{' || mark === '[') {
        open.push(mark);
        expects = mark === '{' ? 'a name in double quotes' : 'a value';
        mayEnd = true;
        at = TOKEN.lastIndex;
        continue;
      }
      if (mark) return wrong;
    } else if (expects === 'a name in double quotes') {
      if (!string) return wrong;
      expects = 'a colon';
      mayEnd = false;
      at = TOKEN.lastIndex;
      continue;
    } else if (expects === 'a colon') {
      if (mark !== ':') return wrong;
      expects = 'a value';
      at = TOKEN.lastIndex;
      continue;
    } else if (mark === ',' && open.length) {
      expects = open.at(-1) === '{' ? 'a name in double quotes' : 'a value';
      mayEnd = false;
      at = TOKEN.lastIndex;
      continue;
    } else return wrong;
    expects = open.length ? 'a comma or the end of the list' : 'the end';
    mayEnd = false;
    at = TOKEN.lastIndex;
  }
}
