/** Shows the open questions of all jobs, with the forms that answer them. */

import { el, put, show } from './dom.js';
import { questionList } from './questionlist.js';
import { everySecond } from './ticker.js';

export function inboxView({ store, announcer, inbox }) {
  const none = el('p', { class: 'panel empty' });
  const more = el('p', { class: 'note', hidden: true }, 'There are more open questions than are shown here.');
  const list = questionList({
    control: () => store.state.control,
    now: () => Date.now() + store.state.skew,
    say: (text) => announcer.say(text),
  });
  const element = el('div', { class: 'page narrow' }, el('h1', {}, 'Inbox'), none, more, list.element);

  function draw() {
    const { phase, features } = store.state;
    if (phase !== 'ready') {
      put(none, 'Looking for questions…');
      return;
    }
    list.update(inbox.questions);
    const able = features.includes('x-vendor.arcp-client.ask');
    put(none, able ? 'No agent waits for an answer.' : 'Agents of this runtime cannot ask questions.');
    show(none, list.open === 0);
    show(more, Boolean(inbox.questions.truncated));
  }

  const stops = [inbox.subscribe(draw), store.subscribe(draw), everySecond(() => list.tick())];
  return { title: 'Inbox', element, stop() { stops.forEach((stop) => stop()); } };
}
