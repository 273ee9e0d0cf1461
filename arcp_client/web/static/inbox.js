/** Keeps the questions of all jobs: read anew whenever the state of the link says that they changed. */

import { parse } from './numbers.js';

const AGAIN = 2000;
const HIDDEN = 30000;                        // a hidden page has no stream, and a title

/** `{questions, count, subscribe}`; `store` has the state of the link. */
export function createInbox(store) {
  const listeners = new Set();
  let questions = { revision: null, open: [], closed: [], truncated: false };
  let timer = null;
  let loading = false;

  async function load() {
    if (loading || timer !== null) return;
    loading = true;
    try {
      const response = await fetch(new URL('api/questions', document.baseURI), { credentials: 'same-origin', cache: 'no-store' });
      if (response.ok) {
        questions = parse(await response.text());
        for (const listener of [...listeners]) listener(questions);
      } else if (response.status >= 500) later();
    } catch {
      later();                               // the streams show that the server does not answer
    }
    loading = false;
    look();
  }

  function later() {
    timer = setTimeout(() => {
      timer = null;
      look();
    }, AGAIN);
  }

  function look() {
    const told = store.state.link?.questions?.revision;
    if (store.state.phase !== 'login' && typeof told === 'number' && told !== questions.revision) load();
  }

  store.subscribe(look);
  setInterval(() => { if (document.hidden && store.state.phase === 'ready') load(); }, HIDDEN);
  return {
    get questions() { return questions; },
    /** How many may be answered here. */
    get count() { return store.state.phase === 'login' ? 0 : questions.open.filter((each) => each.may_answer).length; },
    /** Call `listener(questions)` now and after each change, until the returned function is called. */
    subscribe(listener) {
      listeners.add(listener);
      listener(questions);
      return () => listeners.delete(listener);
    },
  };
}
