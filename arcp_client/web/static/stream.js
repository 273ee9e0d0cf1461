/** Receives server-sent events and parses their data; pauses while the page is hidden. */

import { parse, write } from './numbers.js';
import { canShare, share } from './sharedstream.js';
import { takeTurns } from './turns.js';

const FIRST = 500;
const MOST = 10000;
const PATIENCE = 10000;                      // a stream that brings nothing is given up for another's turn

/**
 * Follow one stream of the server.
 *
 * A break of the network is mended by the browser, which asks to continue after the last id it saw. An
 * answer that is no stream ends the browser's tries: then `refused` is asked, with the answer's
 * status and error, whether to go on, and the next try says by `?after=` where to. While the page is
 * hidden the stream is closed, since a browser has only a few connections to a server. Where many
 * windows are visible they share one stream; in browsers that cannot, they take turns, and each continues
 * after the last id it saw.
 *
 * `on` maps types of messages to `(data, bytes, position)`; `state` is told 'connecting', 'live', 'turns' (live,
 * and others have their turn too), 'offline' or 'idle'.
 */
export function follow(url, { on, state = () => {}, refused = () => true }) {
  let source = null;
  let last = '';
  let timer = null;
  let delay = FIRST;
  let over = false;
  let resting = false;                       // asking why, or refused for good
  let opened = 0;
  let got = false;
  let told = '';
  let shared = null;                         // ends the part of the shared stream
  const turns = takeTurns(look);

  function say() {
    const now = turns.many() ? 'turns' : 'live';
    if (now !== told) state(now);
    told = now;
  }

  function open() {
    timer = null;
    if (over || source || shared || document.hidden) return;
    if (turns.many() && canShare()) return join();
    if (!turns.mine()) return;
    opened = Date.now();
    got = false;
    const target = new URL(url, document.baseURI);
    if (last) target.searchParams.set('after', last);
    const mine = new EventSource(target);
    source = mine;
    mine.addEventListener('open', () => {
      delay = FIRST;
      told = '';
      say();
    });
    for (const [type, listener] of Object.entries(on)) {
      mine.addEventListener(type, (message) => {
        if (source !== mine) return;
        got = true;
        if (message.lastEventId) last = message.lastEventId;
        listener(parse(message.data), message.data.length, message.lastEventId);
      });
    }
    mine.addEventListener('error', () => {
      if (source !== mine) return;
      state('offline');
      if (mine.readyState === EventSource.CLOSED) {
        close();
        ask(target);
      }
    });
  }

  /** Go on over the stream that all windows share. */
  function join() {
    shared = share(url, last, {
      message(kind, id, text) {
        if (id) last = id;
        on[kind]?.(parse(text), text.length, id);
      },
      state,
      async refused({ status, error }) {
        shared = null;
        if (over || !refused({ status, error })) {
          resting = true;
          return;
        }
        timer = setTimeout(open, delay);
        delay = Math.min(delay * 2, MOST);
      },
    });
  }

  async function ask(target) {
    resting = true;
    const answer = await statusOf(target);
    if (over || source) return;
    if (answer && !refused(answer)) return;
    resting = false;
    timer = setTimeout(open, delay * (0.75 + Math.random() / 2));
    delay = Math.min(delay * 2, MOST);
  }

  function close() {
    source?.close();
    source = null;
    shared?.();
    shared = null;
    clearTimeout(timer);
    timer = null;
  }

  /** Begin when it is this window's turn, and end when it is another's. */
  function look() {
    if (over || document.hidden || shared) return;
    if (source && turns.many() && canShare()) {
      close();
      join();
    } else if (!source) {
      if (timer === null && !resting) open();
    } else if (!turns.mine() && (got || Date.now() - opened > PATIENCE)) close();
    else if (source.readyState === EventSource.OPEN) say();
  }

  function turn() {
    turns.hidden(document.hidden);
    if (document.hidden) {
      close();
      state('idle');
    } else if (!over && !source && !shared && timer === null) {
      resting = false;
      state('connecting');
      open();
    }
  }

  document.addEventListener('visibilitychange', turn);
  if (document.hidden) state('idle');
  else open();

  return {
    stop() {
      if (over) return;
      over = true;
      close();
      turns.stop();
      document.removeEventListener('visibilitychange', turn);
    },
  };
}

/** Why a stream was refused: `{status, error}`; null if the server did not answer or would now. */
async function statusOf(target) {
  const control = new AbortController();
  const timer = setTimeout(() => control.abort(), 5000);
  try {
    const response = await fetch(target, { signal: control.signal, credentials: 'same-origin', cache: 'no-store' });
    if (response.ok) return null;
    return { status: response.status, error: await errorOf(response) };
  } catch {
    return null;
  } finally {
    clearTimeout(timer);
    control.abort();
  }
}

/** The error of an answer: `{code, message, remedy}`. */
export async function errorOf(response) {
  try {
    const body = await response.json();
    if (body?.error?.message) return body.error;
  } catch { /* no JSON: the status says it */ }
  return { code: `HTTP_${response.status}`, message: response.statusText || 'The server refused the request.', remedy: '' };
}

/** Get JSON with the digits of its numbers: `{body, bytes}`; throws as `send` does. */
export async function get(path) {
  const response = await asked(path, {});
  const text = await response.text();
  return { body: parse(text), bytes: text.length };
}

/** Send JSON; gives `{status, body}` or throws an Error with `code`, `remedy` and `status`. */
export async function send(path, body) {
  const response = await asked(path, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: write(body) });
  const text = await response.text();
  return { status: response.status, body: text ? parse(text) : null };
}

async function asked(path, options) {
  let response;
  try {
    response = await fetch(new URL(path, document.baseURI), { credentials: 'same-origin', ...options });
  } catch {
    throw Object.assign(new Error('The dashboard’s server does not answer.'), {
      code: 'OFFLINE', status: 0, remedy: 'Check that it runs, then try again.',
    });
  }
  if (!response.ok) {
    const error = await errorOf(response);
    throw Object.assign(new Error(error.message), { code: error.code, remedy: error.remedy, status: response.status });
  }
  return response;
}
