/** Shows a live job: connects its stream to its page. */

import { confirm } from './dialog.js';
import { el, put, show } from './dom.js';
import { JobState } from './jobstate.js';
import { jobPanel } from './jobpanel.js';
import { ENDED } from './status.js';
import { copyButton } from './copy.js';
import { questionList } from './questionlist.js';
import { jobHref, listHref } from './router.js';
import { follow, get, send } from './stream.js';
import { clip, oneLine } from './text.js';
import { everySecond } from './ticker.js';

const TAIL = 2000;                           // events that a page begins with; older ones come on demand

export function jobView({ id, query }, { store, announcer, inbox, page, link, shownAt, needLogin, lookOnce, watchOverview }) {
  const path = `api/jobs/${encodeURIComponent(id)}`;
  const state = new JobState();
  const transcript = `${path}/transcript`;
  const panel = jobPanel(state, {
    transcript,
    result: `${path}/result`,
    older,
    jobs: () => store.state.jobs,
    hrefOf: (n) => `${jobHref(id)}?event=${n}`,
    told: (events, errors) => announcer.events(events, errors),
    drawn: shownAt,
    since: () => opened,
    now: () => Date.now() + store.state.skew,
  });
  const failure = el('div', { class: 'panel tone-error', role: 'alert', hidden: true });
  const cancel = el('button', { type: 'button', class: 'button danger small', hidden: true, on: { click: ask } }, 'Cancel job');
  const again = el('a', { class: 'button small', href: `#/submit?from=${encodeURIComponent(id)}`, hidden: true }, 'Run again');
  const restarted = el('p', { class: 'note', hidden: true });
  const list = questionList({
    control: () => store.state.control,
    now: () => Date.now() + store.state.skew,
    links: false,
    level: 3,
    say: (text) => announcer.say(text),
    title: 'Answered and closed',
  });
  const questions = el('section', { 'aria-labelledby': 'questions-title', hidden: true }, el('h2', { id: 'questions-title' }, 'Questions'), list.element);
  const element = el('div', { class: 'page' },
    el('p', { class: 'back' }, el('a', { href: listHref() }, '← All jobs')),
    el('div', { class: 'page-head' }, el('h1', { class: 'job foreign' }, oneLine(id, 160)), el('span', { class: 'grow' }),
      copyButton('Copy id', () => id),
      el('details', { class: 'menu' }, el('summary', { class: 'button small' }, 'Download'), el('div', { class: 'menu-items' },
        el('a', { href: transcript, download: true }, 'Download transcript'),
        el('a', { href: `${path}/document`, download: true }, 'Download as JSON'))),
      el('a', { class: 'button small', href: `#/compare?a=${encodeURIComponent(id)}` }, 'Compare'), again, cancel),
    failure, restarted, questions, panel.element);
  let asked = false;
  let looks = 0;
  let wanted = Number(query?.get('event') ?? 0) || 0;    // the event that the address names, until it is there
  let revealing = false;
  let opened = Infinity;                     // since when events come as they happen

  function controls() {
    const over = ENDED.has(state.detail?.status) || state.ended !== null;
    show(again, store.state.control && panel.origin.given !== null);
    show(cancel, store.state.control && state.detail !== null && !over);
    cancel.disabled = asked;
    put(cancel, asked ? 'Cancelling…' : 'Cancel job');
  }

  async function ask() {
    const reason = await confirm({
      title: 'Cancel this job?',
      text: `${oneLine(id, 160)} is asked to stop. What it has done so far stays done.`,
      yes: 'Cancel job', no: 'Keep it running', note: 'Reason (optional)',
    });
    if (reason === null) return;
    asked = true;
    controls();
    try {
      await send(`${path}/cancel`, reason ? { reason } : {});
      announcer.say('The job is asked to stop.');
    } catch (cause) {
      fail(cause);
      asked = false;
    }
    controls();
    if (cancel.hidden || cancel.disabled) element.querySelector('h1').focus();
  }

  function fail({ code, message, remedy }) {
    failure.replaceChildren(
      el('p', { class: 'foreign' }, el('strong', {}, oneLine(code ?? 'ERROR', 60)), ' ', clip(message, 600)),
      el('p', { class: 'foreign' }, clip(remedy ?? '', 600)));
    show(failure, true);
  }

  /** Get a page of events that are older than those on the page. */
  async function older() {
    const until = state.before;
    try {
      const { body, bytes } = await get(`${path}/events?until=${encodeURIComponent(until)}`);
      if (state.before !== until) return;    // a reset came first
      panel.prepend(body, bytes);
    } catch (cause) {
      if (state.before === until) state.before = null;
      if (cause.status === 401) needLogin();
      else fail(cause);
    }
  }

  /** Show the event that the address names; load older events until it is there. */
  async function reveal() {
    if (revealing) return;
    revealing = true;
    for (let until = null; state.before !== until && wanted < state.timeline.start; await older()) until = state.before;
    revealing = false;
    if (panel.reveal(wanted)) wanted = 0;
  }

  const on = {};
  for (const type of ['job', 'link', 'reset', 'events', 'end']) {
    on[type] = (data, bytes, position) => {
      panel.take(type, data, bytes, position);
      if (type === 'link') link(data);
      if (type === 'reset') noteReset(data.reason);
      if (type === 'job' || type === 'end') controls();
      if (type === 'events' && wanted > 0) reveal();
      if (type === 'end') {
        stream.stop();
        watchOverview(true);                 // the link is still worth knowing
        announcer.say(`The job ended: ${oneLine(String(data.status).replace('_', ' '), 24)}.`);
      }
    };
  }

  function noteReset(reason) {
    const words = {
      __proto__: null,
      restarted: 'The dashboard’s server was restarted: the timeline was read again from what it holds.',
      skipped: 'The page was away for long: it shows the newest events.',
      expired: 'The page was away for long: the timeline was read again from what the server still holds.',
    }[reason] ?? '';
    put(restarted, words);
    show(restarted, Boolean(words));
  }

  const stream = follow(`${path}/stream?tail=${TAIL}`, {
    on,
    state(now) {
      if (now === 'live' || now === 'turns') {
        opened = Date.now() + store.state.skew;
        show(failure, false);
      }
      page(now);
    },
    refused({ status, error }) {
      if (status === 401) {
        needLogin();
        return false;
      }
      fail(error);
      if (status >= 500 || status === 429) return true;
      page('live');
      return false;
    },
  });

  let ticks = 0;
  const tick = () => {
    panel.tick();
    // Only the runtime's listing knows when the job began, and its parent; a new job is not in it yet.
    if (state.detail && !state.detail.created_at && !state.listed && looks < 12) {
      if (looks % 3 === 0) lookOnce();
      looks += 1;
    }
    ticks += 1;
    if (ticks % 5 === 0 && !document.hidden && (state.detail?.children?.length || state.listed?.parent_job_id)) lookOnce();
  };
  panel.draw();
  if (/^[\w.:-]{1,128}$/.test(id)) panel.origin.load(`${path}/input`).then(controls);
  tick();
  const known = () => {
    const row = store.state.jobs.get(id) ?? null;
    if (row !== state.listed) {
      state.listed = row;
    }
    panel.draw();
    controls();
  };
  const showQuestions = ({ open, closed }) => {
    if (store.state.phase !== 'ready') return;   // what may be done here is not known yet
    const own = (each) => each.job_id === id;
    list.update({ open: open.filter(own), closed: closed.filter(own) });
    show(questions, list.size > 0);
  };
  known();
  const stops = [store.subscribe(known), everySecond(tick), everySecond(() => list.tick()), inbox.subscribe(showQuestions), store.subscribe(() => showQuestions(inbox.questions))];
  return {
    title: oneLine(id, 60),
    element,
    stop() {
      stream.stop();
      panel.stop();
      stops.forEach((stop) => stop());
    },
  };
}
