/** Parses a transcript file into jobs with their events. Pure. */

import { num, parse } from './numbers.js';
import { millis } from './text.js';

const FAMILY = 'arcp-client.transcript/';
const MOST_LINE = 4 * 2 ** 20;

/**
 * Read a transcript: JSON lines, the first of which names the schema.
 *
 * Gives `{header, jobs, skipped, complete}`; a job is `{id, start, entries, status}` and an entry
 * `{n, at, t, event, bytes}`, `at` in ms since 1970 and `t` in seconds since the recording began.
 * Lines that cannot be read are counted, not fatal. Throws an Error for what is no transcript.
 */
export function readTranscript(text) {
  const jobs = new Map();
  const found = { header: null, jobs: [], skipped: 0, complete: false };
  let began = 0;

  const job = (id) => {
    let one = jobs.get(id);
    if (!one) {
      one = { id, start: { job_id: id }, entries: [], status: null };
      jobs.set(id, one);
    }
    return one;
  };
  const add = (one, t, event, bytes) => one.entries.push({ n: one.entries.length + 1, at: began + t * 1000, t, event, bytes });

  for (const line of lines(text)) {
    const fields = line.length <= MOST_LINE ? object(line) : null;
    if (found.header === null) {
      if (!String(fields?.schema ?? '').startsWith(FAMILY)) {
        throw new Error(`This is no transcript: its first line does not name the schema ${FAMILY}1.`);
      }
      if (fields.schema !== `${FAMILY}1`) throw new Error(`This transcript is of the schema ${fields.schema.slice(0, 60)}, which this page does not know.`);
      found.header = fields;
      began = millis(fields.created_at) ?? 0;
      continue;
    }
    if (!fields) {
      found.skipped += 1;
      continue;
    }
    const t = Math.max(0, num(fields.at) ?? 0);
    if (fields.type === 'job' && named(fields.job_id)) job(fields.job_id).start = { ...fields, lease: lists(fields.lease) };
    else if (fields.type === 'event' && fields.event && typeof fields.event === 'object') {
      const id = fields.event.job_id ?? fields.job_id;   // a gap is in the stream of a job
      if (named(id)) add(job(id), t, fields.event, line.length);
      else for (const one of jobs.values()) add(one, t, fields.event, line.length);
    } else if (fields.type === 'outcome' && named(fields.job_id)) job(fields.job_id).status = fields.status ?? null;
    else if (fields.type === 'end') found.complete = fields.reason === 'complete';
  }
  if (found.header === null) throw new Error('The file is empty.');
  found.jobs = [...jobs.values()];
  return found;
}

const named = (id) => typeof id === 'string' && id !== '';

/** Of a lease what is one: namespaces with lists of texts. */
function lists(lease) {
  if (!lease || typeof lease !== 'object') return {};
  return Object.fromEntries(Object.entries(lease).filter(([, found]) => Array.isArray(found))
    .map(([name, found]) => [name, found.filter((each) => typeof each === 'string')]));
}

function* lines(text) {
  let from = 0;
  while (from < text.length) {
    let to = text.indexOf('\n', from);
    if (to < 0) to = text.length;
    const line = text.slice(from, to).trim();
    if (line) yield line;
    from = to + 1;
  }
}

function object(line) {
  try {
    const value = parse(line);
    return value && typeof value === 'object' && !Array.isArray(value) ? value : null;
  } catch {
    return null;
  }
}
