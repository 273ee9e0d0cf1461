/** Holds the one stream that the windows of a browser share; it runs as a SharedWorker. */

const BASE = new URL('../', self.location.href);
const FIRST = 500;
const MOST = 10000;
const GONE = 15000;                          // a window that was not heard of for so long has gone

const topics = new Map();                    // name → {port, key, path, after}
const heard = new Map();                     // port → when
let source = null;
let id = null;
let delay = FIRST;
let timer = null;
let next = 0;

self.onconnect = ({ ports: [port] }) => {
  heard.set(port, Date.now());
  port.onmessage = ({ data }) => take(port, data);
};

function take(port, data) {
  heard.set(port, Date.now());
  if (data.type === 'open') {
    next += 1;
    const name = String(next);
    topics.set(name, { port, key: data.key, path: data.path, after: data.after });
    if (id) subscribe(name);
    else open();
  } else if (data.type === 'close') {
    for (const [name, topic] of topics) if (topic.port === port && topic.key === data.key) drop(name);
  } else if (data.type === 'bye') leave(port);
}

function leave(port) {
  heard.delete(port);
  for (const [name, topic] of topics) if (topic.port === port) drop(name);
}

function drop(name) {
  topics.delete(name);
  if (id) ask({ remove: name }).catch(() => {});
  if (!topics.size) close();
}

function say(topic, message) {
  topic.port.postMessage({ key: topic.key, ...message });
}

function close() {
  source?.close();
  source = null;
  id = null;
  clearTimeout(timer);
  timer = null;
}

function open() {
  if (source || timer !== null || !topics.size) return;
  const mine = new EventSource(new URL('api/streams', BASE));
  source = mine;
  mine.addEventListener('hello', ({ data }) => {
    if (source !== mine) return;
    id = JSON.parse(data);
    delay = FIRST;
    for (const name of topics.keys()) subscribe(name);
  });
  mine.addEventListener('m', ({ data }) => {
    if (source === mine) message(data);
  });
  mine.addEventListener('error', () => {
    if (source !== mine) return;
    close();
    for (const topic of topics.values()) say(topic, { type: 'state', state: 'offline' });
    timer = setTimeout(again, delay * (0.75 + Math.random() / 2));
    delay = Math.min(delay * 2, MOST);
  });
}

/** Try again; a refusal of the server goes to every window, which knows what to do. */
async function again() {
  try {
    const response = await fetch(new URL('api/overview', BASE), { cache: 'no-store', signal: AbortSignal.timeout(5000) });
    if (response.status === 401) {
      const { error } = await response.json();
      for (const [name, topic] of [...topics]) {
        topics.delete(name);
        say(topic, { type: 'refused', status: 401, error });
      }
    }
  } catch { /* the server does not answer yet */ }
  timer = null;
  open();
}

/** "7 events mark-12 {…}": the name of the subscription, the kind, the position, and JSON. */
function message(text) {
  const a = text.indexOf(' ');
  const b = text.indexOf(' ', a + 1);
  const c = text.indexOf(' ', b + 1);
  const name = text.slice(0, a);
  const topic = topics.get(name);
  if (!topic) return;
  const kind = text.slice(a + 1, b);
  const mark = text.slice(b + 1, c);
  if (mark !== '-') topic.after = mark;
  if (kind === 'closed') {
    subscribe(name);                         // as a browser does with a stream that ends
    return;
  }
  say(topic, { type: 'message', kind, id: mark === '-' ? '' : mark, data: text.slice(c + 1) });
}

async function subscribe(name) {
  const topic = topics.get(name);
  const to = id;
  if (!topic || !to) return;
  try {
    const response = await ask({ add: name, path: topic.path, after: topic.after || null });
    if (to !== id || !topics.has(name)) return;
    if (response.ok) {
      say(topic, { type: 'state', state: 'live' });
      return;
    }
    const error = await response.json().then((body) => body.error, () => ({ code: `HTTP_${response.status}`, message: 'The server refused the stream.', remedy: '' }));
    if (error.code === 'NO_STREAM') return;  // it has just ended: its error event comes
    topics.delete(name);
    say(topic, { type: 'refused', status: response.status, error });
  } catch { /* the stream has failed too, and its error event comes */ }
}

function ask(body) {
  return fetch(new URL(`api/streams/${id}`, BASE), {
    method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body),
  });
}

setInterval(() => {
  for (const [port, at] of heard) if (Date.now() - at > GONE) leave(port);
}, 5000);
