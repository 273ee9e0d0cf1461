/** Describes a row of the timeline in words. No document. */

import { gapChip } from './chip.js';
import { RawJson, num } from './numbers.js';
import { bytes, clock, count, duration, millis, oneLine, plural, pretty, preview } from './text.js';

/** Groups that the filter knows, in the order in which it offers them. */
export const GROUPS = [
  ['log', 'Log'],
  ['thought', 'Thoughts'],
  ['tool', 'Tools'],
  ['status', 'Status'],
  ['progress', 'Progress'],
  ['metric', 'Metrics'],
  ['result', 'Result'],
  ['other', 'Other'],
];

const GROUP_OF = {
  __proto__: null,
  log: 'log', thought: 'thought', tool_call: 'tool', tool_result: 'tool', status: 'status',
  progress: 'progress', metric: 'metric', result_chunk: 'result', result: 'result',
};

export const LEVELS = ['trace', 'debug', 'info', 'warn', 'error'];
const LEVEL_OF = { __proto__: null, trace: 0, debug: 1, info: 2, notice: 2, warn: 3, warning: 3, error: 4, critical: 4, fatal: 4 };

/** Rows that no filter hides: a job's end, and what is missing. */
const ALWAYS = new Set(['error', 'gap', 'hole']);

/** A predicate over rows for `{groups: Set, level: index in LEVELS, text}`. */
export function matcher({ groups, level, text }) {
  const wanted = text.trim().toLowerCase();
  return (row) => {
    if (!ALWAYS.has(row.kind)) {
      if (!groups.has(GROUP_OF[row.kind] ?? 'other')) return false;
      if (row.kind === 'log' && (LEVEL_OF[row.event.level] ?? 2) < level) return false;
    }
    return !wanted || haystack(row).includes(wanted);
  };
}

function haystack(row) {
  const parts = [row.kind];
  const walk = (value, depth) => {
    if (typeof value === 'string') parts.push(value.slice(0, 20000));
    else if (typeof value === 'number' || value instanceof RawJson) parts.push(String(value));
    else if (value && typeof value === 'object' && depth < 6) for (const key in value) { parts.push(key); walk(value[key], depth + 1); }
  };
  walk(row.event, 0);
  if (row.texts) walk(row.texts, 0);
  if (row.result) walk(row.result, 0);
  return parts.join('\n').toLowerCase();
}

/**
 * What a row says: `{icon, word, tone, parts}`.
 *
 * The word says in letters what icon and tone say in pictures and colours. `parts` are pairs
 * (class, text), one line in all.
 */
export function describe(row) {
  const make = DESCRIBE[row.kind];
  return make ? make(row.event, row) : other(row.event, row);
}

const DESCRIBE = {
  __proto__: null,
  log(e) {
    const level = LEVEL_OF[e.level] ?? 2;
    const tone = ['dim', 'dim', 'plain', 'warn', 'error'][level];
    const icon = ['text', 'text', 'text', 'warn', 'cross'][level];
    return { icon, tone, word: oneLine(e.level || 'info', 12), parts: [['text', oneLine(e.message)]] };
  },
  thought: (e, row) => ({
    icon: 'thought', tone: 'thought', word: row.count > 1 ? 'thoughts' : 'thought',
    parts: [['text', oneLine(e.text)], ...(row.count > 1 ? [['note', `and ${plural(row.count - 1, 'earlier thought')}`]] : [])],
  }),
  tool_call(e, row) {
    const parts = [['name', oneLine(e.tool, 60)], ['args', call(e.args)]];
    if (!row.result) return { icon: 'tool', tone: 'run', word: 'calling', parts };
    const bad = row.result.error !== null && row.result.error !== undefined;
    parts.push(['arrow', bad ? '✗' : '→'], [bad ? 'bad' : 'text', bad ? fault(row.result.error) : preview(row.result.result)]);
    const seconds = took(row);
    if (seconds !== null) parts.push(['note', duration(seconds)]);
    return { icon: bad ? 'cross' : 'check', tone: bad ? 'error' : 'ok', word: bad ? 'failed' : 'called', parts };
  },
  tool_result(e) {
    const bad = e.error !== null && e.error !== undefined;
    return {
      icon: bad ? 'cross' : 'tool', tone: bad ? 'error' : 'plain', word: bad ? 'failed' : 'answer',
      parts: [['name', oneLine(e.call_id, 60)], ['text', bad ? fault(e.error) : preview(e.result)]],
    };
  },
  status: (e) => ({ icon: 'flag', tone: 'plain', word: 'status', parts: [['name', oneLine(e.phase, 80)], ['text', oneLine(e.message)]] }),
  progress(e, row) {
    const parts = [['name', fraction(e)]];
    if (e.message) parts.push(['text', oneLine(e.message)]);
    if (row.count > 1) parts.push(['note', plural(row.count, 'event')]);
    return { icon: 'bars', tone: 'plain', word: 'progress', parts };
  },
  metric: (e) => ({
    icon: 'gauge', tone: 'plain', word: 'metric',
    parts: [['name', oneLine(e.name, 80)], ['text', `${oneLine(e.value, 80)}${e.unit ? ` ${oneLine(e.unit, 20)}` : ''}`], ...(e.dimensions ? [['note', preview(e.dimensions, 100)]] : [])],
  }),
  artifact_ref: (e) => ({
    icon: 'file', tone: 'plain', word: 'artifact',
    parts: [['name', oneLine(e.uri, 200)], ['note', [oneLine(e.content_type, 60), bytes(e.byte_size)].filter(Boolean).join(', ')]],
  }),
  delegate: (e) => ({
    icon: 'child', tone: 'plain', word: 'delegate',
    parts: [['name', oneLine(e.agent ?? '', 80)], ['text', oneLine(e.child_job_id ?? e.delegate_id ?? '', 80)]],
  }),
  result_chunk: (e, row) => ({
    icon: 'file', tone: 'plain', word: 'result',
    parts: [['name', `${plural(row.count, 'piece')}, ${bytes(row.bytes)}`], ['note', e.more ? 'more to come' : 'complete']],
  }),
  result: (e) => ({
    icon: 'check', tone: 'ok', word: 'success',
    parts: [['text', e.summary ? oneLine(e.summary) : e.result_id ? 'the result came in pieces' : preview(e.value)]],
  }),
  error: (e) => ({
    icon: e.status === 'cancelled' ? 'stop' : e.status === 'timed_out' ? 'clock' : 'cross', tone: 'error',
    word: { __proto__: null, cancelled: 'cancelled', timed_out: 'timed out' }[e.status] ?? 'error',
    parts: [['name', oneLine(e.code, 60)], ['bad', oneLine(e.message)]],
  }),
  gap: (e) => ({
    icon: 'gap', tone: 'warn', word: 'gap',
    parts: [['name', gapChip(e)], ['text', GAP[e.reason] ?? oneLine(e.reason, 80)]],
  }),
  hole: (e) => ({
    icon: 'gap', tone: 'warn', word: 'missing',
    parts: [['text', `events ${count(e.first)} to ${count(e.last)} did not reach this page; the transcript has them`]],
  }),
};

const GAP = {
  __proto__: null,
  lost: 'the runtime no longer had these events',
  unknown_end: 'the session was started anew: how many events are missing is not known',
  not_retained: 'older than what the client keeps',
  overflow: 'dropped because no consumer read them in time',
  undecodable: 'received, but could not be read',
};

function other(e, row) {
  return { icon: 'dot', tone: 'plain', word: oneLine(row.kind, 24) || 'event', parts: [['text', preview(e.body ?? e)]] };
}

function call(args) {
  if (args === null || args === undefined) return '()';
  const text = preview(args, 120);
  return `(${text.startsWith('{') && text.endsWith('}') ? text.slice(1, -1) : text})`;
}

function fault(error) {
  if (error && typeof error === 'object' && (error.code || error.message)) {
    return [error.code, error.message].filter(Boolean).map((part) => oneLine(part)).join(': ');
  }
  return preview(error);
}

function took(row) {
  const from = millis(row.event.ts) ?? row.at;
  const to = millis(row.result.ts) ?? row.resultAt;
  return typeof from === 'number' && typeof to === 'number' && to >= from ? (to - from) / 1000 : null;
}

/** "3 of 10 files, 30 %" of `{current, total, units}`. */
export function fraction({ current, total, units }) {
  const unit = units ? ` ${oneLine(units, 24)}` : '';
  if (!(num(total) > 0)) return `${count(current)}${unit}`;
  return `${count(current)} of ${count(total)}${unit}, ${Math.floor((100 * current) / total)} %`;
}

/** All details of a row, as pairs (label, text), for when it is opened. */
export function details(row) {
  const e = row.event;
  const pairs = [];
  const add = (label, value) => {
    if (value !== null && value !== undefined && value !== '') pairs.push([label, typeof value === 'string' ? value : pretty(value)]);
  };
  if (row.kind === 'hole') return [['events', `${e.first}–${e.last}`]];
  const { seq, ts, ...fields } = e;
  if (row.texts) fields.text = row.texts.join('\n\n');
  for (const [name, value] of Object.entries(fields)) add(name, typeof value === 'string' ? pretty(value) : value);
  if (row.result) {
    const { seq: _seq, ts: _ts, call_id: _call, ...answer } = row.result;
    for (const [name, value] of Object.entries(answer)) add(name === 'error' ? 'error' : name, value);
  }
  add('at', [clock(millis(ts) ?? row.at), millis(ts) === null ? 'by this server’s clock' : ''].filter(Boolean).join(' '));
  add('event', [`number ${count(row.n)}${row.last > row.n ? `–${count(row.last)}` : ''}`, seq === null || seq === undefined ? '' : `sequence ${count(seq)}`].filter(Boolean).join(', '));
  return pairs;
}

/** The time that a row shows: the agent's clock, or the server's. */
export function timeOf(row) {
  return clock(millis(row.event.ts) ?? row.at);
}
