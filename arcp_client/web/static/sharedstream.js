/** Follows streams of the server over the one connection that all windows of a browser share. */

const BEAT = 3000;
let worker;

/** The connection to the worker; null where browsers have none. */
function connect() {
  if (worker !== undefined) return worker;
  worker = null;
  try {
    let url = new URL('static/sharedworker.js', document.baseURI).href;
    if (globalThis.trustedTypes) {
      const only = url;                      // the policy of this page's address, and of no other
      url = trustedTypes.createPolicy('arcp-client-worker', { createScriptURL: () => only }).createScriptURL(url);
    }
    worker = new SharedWorker(url, { name: 'arcp-client' });
  } catch {                                  // the browser has none, or its policy forbids it
    return null;
  }
  const known = worker;
  known.addEventListener('error', () => { worker = null; });
  known.port.start();
  const beat = setInterval(() => known.port.postMessage({ type: 'here' }), BEAT);
  addEventListener('pagehide', () => {
    clearInterval(beat);
    known.port.postMessage({ type: 'bye' });
    worker = undefined;
  }, { once: true });
  return worker;
}

/** Whether the browser can share a stream. */
export const canShare = () => connect() !== null;

let keys = 0;

/**
 * Follow `path` from the position `after` on. `message(kind, id, text)` gets each message, `state` is
 * told 'live' or 'offline', `refused({status, error})` ends it. Returns a function that ends it.
 */
export function share(path, after, { message, state, refused }) {
  const { port } = connect();
  keys += 1;
  const key = keys;
  function hear({ data }) {
    if (data.key !== key) return;
    if (data.type === 'message') message(data.kind, data.id, data.data);
    else if (data.type === 'state') state(data.state);
    else if (data.type === 'refused') {
      port.removeEventListener('message', hear);
      refused(data);
    }
  }
  port.addEventListener('message', hear);
  port.postMessage({ type: 'open', key, path, after });
  return () => {
    port.removeEventListener('message', hear);
    port.postMessage({ type: 'close', key });
  };
}
