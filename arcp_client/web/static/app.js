/** Starts the dashboard and connects its parts; no other module imports all of them. */

import { Announcer } from './announcer.js';
import { gapChip, gapHint, lagText, linkChip, linkNews } from './chip.js';
import { icon, put, set, show } from './dom.js';
import { showKeys } from './help.js';
import { compareView } from './compareview.js';
import { createInbox } from './inbox.js';
import { inboxView } from './inboxview.js';
import { jobView } from './jobview.js';
import { jobsView } from './jobsview.js';
import { loginView } from './loginview.js';
import { parse } from './numbers.js';
import { overviewView } from './overviewview.js';
import { createStore } from './overview.js';
import { replayView } from './replayview.js';
import { startRouter } from './router.js';
import { errorOf, follow, send } from './stream.js';
import { submitView } from './submitview.js';
import { oneLine } from './text.js';

const at = (id) => document.getElementById(id);
const store = createStore();
const announcer = new Announcer(at('announcer'));
const inbox = createInbox(store);
const lag = lagMeter();
let overview = null;
let router = null;

// ------------------------------------------------------------------------------- the links

function page(state) {
  store.dispatch({ type: 'page', data: { state } });
}

function needLogin() {
  watchOverview(false);
  page('live');
  store.dispatch({ type: 'login' });
  if (router) router.again();
}

/** Follow the overview, except on a job's page: its own stream is the only one it needs. */
function watchOverview(on) {
  if (!on) {
    overview?.stop();
    overview = null;
    return;
  }
  if (overview) return;
  const on_ = {};
  for (const type of ['overview', 'link', 'job', 'gone']) {
    on_[type] = (data) => store.dispatch({ type, data, at: Date.now() });
  }
  overview = follow('api/overview/stream', { on: on_, state: page, refused });
}

function refused({ status, error }) {
  if (status === 401) {
    needLogin();
    return false;
  }
  store.dispatch({ type: 'failed', data: error });
  if (status >= 500 || status === 429) return true;
  page('live');
  return false;
}

/** One look at the overview, for a job's page that was opened first. */
async function lookOnce() {
  try {
    const response = await fetch(new URL('api/overview', document.baseURI), { credentials: 'same-origin', cache: 'no-store' });
    if (response.ok) store.dispatch({ type: 'overview', data: parse(await response.text()), at: Date.now() });
    else refused({ status: response.status, error: await errorOf(response) });
  } catch { /* the stream of the job shows the error */ }
}

// ------------------------------------------------------------------------------- the head

/** How late events were shown, the worst of the last two seconds. */
function lagMeter() {
  const samples = [];
  const now = () => performance.now();
  const drop = () => {
    while (samples.length && samples[0][0] < now() - 2000) samples.shift();
  };
  return {
    shownAt(ms) {
      samples.push([now(), Math.max(0, (Date.now() + store.state.skew - ms) / 1000)]);
      if (samples.length > 100) samples.shift();
    },
    get seconds() {
      drop();
      return samples.reduce((most, [, seconds]) => Math.max(most, seconds), 0);
    },
    clear: () => { samples.length = 0; },
  };
}

const LOGGED_OUT = { tone: 'plain', icon: 'stop', text: 'not logged in', hint: '' };
let chipShown = '';
let linkBefore = null;

function drawHead() {
  const { link, page: own, runtime, control, login, phase } = store.state;
  const chip = phase === 'login' ? LOGGED_OUT : linkChip(link, own, Date.now() + store.state.skew);
  const known = JSON.stringify(chip);
  if (known !== chipShown) {
    chipShown = known;
    const element = at('chip');
    const word = document.createElement('span');
    word.textContent = chip.text;
    element.replaceChildren(icon(chip.icon), word);
    set(element, 'class', `chip tone-${chip.tone}`);
    set(element, 'title', chip.hint ? oneLine(chip.hint, 300) : null);
  }
  const gap = gapChip(link?.gap);
  if (at('gap').dataset.text !== gap) {
    at('gap').dataset.text = gap;
    at('gap').replaceChildren(...(gap ? [icon('gap'), gap] : []));
    show(at('gap'), Boolean(gap));
    set(at('gap'), 'title', gap ? gapHint(link.gap) : null);
  }
  const seconds = lag.seconds;
  put(at('lag'), link ? lagText(link, seconds) : '');
  set(at('lag'), 'data-seconds', (Number(link?.lag_seconds ?? 0) + seconds).toFixed(3));
  const name = [runtime.name, runtime.version].filter(Boolean).map((part) => oneLine(part, 40)).join(' ');
  put(at('runtime'), name);
  show(at('logout'), login && phase !== 'login');
  const asked = inbox.count;
  put(at('asked'), asked ? ` (${asked})` : '');
  show(at('asked'), asked > 0);
  const title = document.title.replace(/^\(\d+\) /, '');
  const titled = asked ? `(${asked}) ${title}` : title;
  if (document.title !== titled) document.title = titled;
  set(document.documentElement, 'data-control', control ? 'yes' : 'no');
  if (link !== linkBefore) {
    announcer.say(linkNews(linkBefore, link));
    linkBefore = link;
  }
}

// ------------------------------------------------------------------------------- the pages

const tools = { store, announcer, inbox, page, needLogin, lookOnce, watchOverview, shownAt: (ms) => lag.shownAt(ms), link: (data) => store.dispatch({ type: 'link', data }) };

/** A view, or the login in its place. */
function gated(make) {
  return (route) => {
    if (store.state.phase !== 'login') return make(route, tools);
    return loginView({
      done() {
        store.dispatch({ type: 'again' });
        router.again();
      },
    });
  };
}

function onRoute(route) {
  announcer.clear();
  lag.clear();
  for (const link of document.querySelectorAll('nav a')) {
    const current = link.dataset.page === route.name || (link.dataset.page === 'jobs' && (route.name === 'job' || route.name === 'compare'));
    set(link, 'aria-current', current ? (link.dataset.page === route.name ? 'page' : 'true') : null);
  }
  if (store.state.phase === 'login') return;
  watchOverview(route.name !== 'job');
  if (route.name === 'job' && store.state.phase !== 'ready') lookOnce();
}

at('skip').addEventListener('click', (event) => {
  event.preventDefault();                    // the address's hash is the page
  at('main').focus();
});
at('keys').addEventListener('click', showKeys);
at('logout').addEventListener('click', async () => {
  try {
    await send('logout', {});
  } catch (cause) {
    announcer.say(cause.message);
    return;
  }
  needLogin();
});

store.subscribe(drawHead);
inbox.subscribe(drawHead);
setInterval(drawHead, 250);
router = startRouter({
  main: at('main'),
  views: {
    jobs: gated((route, given) => jobsView(route, given)),
    job: gated((route, given) => jobView(route, given)),
    submit: gated((route, given) => submitView(route, given)),
    inbox: gated((_route, given) => inboxView(given)),
    overview: gated((_route, given) => overviewView(given)),
    compare: gated((route, given) => compareView(route, given)),
    replay: gated((_route, given) => replayView(given)),
  },
  onRoute,
});
drawHead();
