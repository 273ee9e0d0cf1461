/** Lets the windows of one browser take turns, since they share six connections to a server. */

const MOST = 4;                              // streams at a time; the rest is for pages and requests
const TURN = 2000;
const GONE = 5000;                           // a window that was not heard of for so long has gone

/**
 * Join the visible windows that want a stream; `look` is called when it may be another's turn.
 *
 * Each window knows all others, and all have one clock: so they agree without a leader on which four
 * have their turn. `mine()` says whether this one has, `many()` whether there are more than four.
 */
export function takeTurns(look) {
  const id = [...crypto.getRandomValues(new Uint8Array(8))].map((b) => b.toString(16).padStart(2, '0')).join('');
  const others = new Map();                  // id → when it was heard last
  const channel = 'BroadcastChannel' in globalThis ? new BroadcastChannel('arcp-client.web/streams') : null;
  let away = false;
  let told = 0;

  const say = (kind) => {
    told = Date.now();
    channel?.postMessage({ id, kind });
  };

  function hear({ data }) {
    if (data.kind === 'left') others.delete(data.id);
    else others.set(data.id, Date.now());
    if (data.kind === 'joined' && !away) say('here');
    look();
  }

  function ring() {
    for (const [each, at] of others) if (Date.now() - at > GONE) others.delete(each);
    return [id, ...others.keys()].sort();
  }

  function beat() {
    if (!away && Date.now() - told > 1000) say('here');
    look();
  }

  function leave() {
    away = true;
    say('left');
  }

  channel?.addEventListener('message', hear);
  addEventListener('pagehide', leave);
  const timer = setInterval(beat, 250);
  if (document.hidden) away = true;
  else say('joined');

  return {
    many: () => ring().length > MOST,
    mine() {
      const all = ring();
      const first = (Math.floor(Date.now() / TURN) * MOST) % all.length;
      return (all.indexOf(id) - first + all.length) % all.length < MOST;
    },
    /** A hidden window needs no stream. */
    hidden(is) {
      if (is && !away) leave();
      else if (!is && away) {
        away = false;
        say('joined');
      }
    },
    stop() {
      clearInterval(timer);
      removeEventListener('pagehide', leave);
      say('left');
      channel?.close();
    },
  };
}
