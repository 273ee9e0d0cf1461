/** Shows the form that submits a job to one of the runtime's agents. */

import { el, put, set, show } from './dom.js';
import { parseJson } from './json.js';
import { RawJson, num, parse, write } from './numbers.js';
import { jobHref } from './router.js';
import { send } from './stream.js';
import { oneLine } from './text.js';

export function submitView(route, { store, announcer }) {
  const heading = el('h1', {}, 'Submit a job');
  const element = el('div', { class: 'page narrow' }, heading);
  const closed = el('div', { class: 'panel' },
    el('p', {}, 'This dashboard only watches.'),
    el('p', { class: 'muted' }, 'Start it with ', el('code', {}, '--allow-control'), ' to submit and cancel jobs here.'));
  const agent = el('select', { id: 'agent', required: true });
  const version = el('select', { id: 'version' });
  const input = area('input', 'Input', 'JSON; leave it empty for none.', 8);
  const lease = area('lease', 'Lease', 'JSON: namespace to patterns, such as {"fs.read": ["/src/**"], "cost.budget": ["USD:5.00"]}. Optional.', 4);
  const limit = el('input', { id: 'limit', type: 'number', min: 1, step: 1, inputmode: 'numeric', 'aria-describedby': 'limit-hint limit-error' });
  const limitError = el('p', { id: 'limit-error', class: 'error-text', hidden: true });
  const failure = el('div', { class: 'panel tone-error', role: 'alert', hidden: true });
  const go = el('button', { type: 'submit', class: 'button primary' }, 'Submit');
  const form = el('form', { class: 'panel form', novalidate: true, on: { submit } },
    el('div', { class: 'columns' },
      el('p', { class: 'field' }, el('label', { for: 'agent' }, 'Agent'), agent),
      el('p', { class: 'field' }, el('label', { for: 'version' }, 'Version'), version)),
    input.element,
    el('details', { class: 'more' }, el('summary', {}, 'Lease and limits'),
      lease.element,
      el('div', { class: 'field' },
        el('label', { for: 'limit' }, 'Longest run, in seconds'), limit,
        el('p', { id: 'limit-hint', class: 'hint' }, 'Optional. The runtime ends the job after it.'), limitError)),
    failure,
    el('p', { class: 'buttons' }, go));
  element.append(closed, form);

  let key = null;                           // kept until it went through: a second try is no second job
  let keyFor = '';
  let offered = null;

  agent.addEventListener('change', versions);

  function versions() {
    const info = store.state.agents.find((each) => each.name === agent.value);
    const normal = info?.default ? `default (${oneLine(info.default, 40)})` : 'default';
    version.replaceChildren(el('option', { value: '' }, normal),
      ...(info?.versions ?? []).map((name) => el('option', { value: name }, oneLine(name, 60))));
  }

  function draw(state) {
    show(closed, state.phase === 'ready' && !state.control);
    show(form, state.control);
    const names = JSON.stringify(state.agents);
    if (names === offered) return;
    offered = names;
    const chosen = agent.value;
    agent.replaceChildren(...state.agents.map((each) => el('option', { value: each.name }, oneLine(each.name, 80))));
    if (state.agents.some((each) => each.name === chosen)) agent.value = chosen;
    versions();
  }

  function seconds() {
    const value = limit.value.trim();
    const wrong = limit.validity.badInput || (value !== '' && !(num(Number(value)) >= 1));
    put(limitError, wrong ? 'Enter a number of seconds, 1 or more.' : '');
    show(limitError, wrong);
    set(limit, 'aria-invalid', wrong ? 'true' : null);
    return wrong ? undefined : value === '' ? null : Number(value);
  }

  async function submit(event) {
    event.preventDefault();
    show(failure, false);
    const checks = [[input.read(), input.box], [lease.read(isLease), lease.box], [seconds(), limit]];
    const wrong = checks.find(([value]) => value === undefined);
    if (wrong) {
      wrong[1].closest('details')?.setAttribute('open', '');
      wrong[1].focus();
      return;
    }
    const [[given], [granted], [most]] = checks;
    const body = {
      agent: version.value ? `${agent.value}@${version.value}` : agent.value,
      input: given,
      ...(granted === null ? {} : { lease: granted }),
      ...(most === null ? {} : { max_runtime: most }),
    };
    const same = write(body);
    if (key === null || keyFor !== same) {
      key = freshKey();
      keyFor = same;
    }
    go.disabled = true;
    try {
      const { body: answer } = await send('api/jobs', { ...body, idempotency_key: key });
      key = null;
      announcer.say('Job submitted.');
      location.hash = jobHref(answer.job_id);
    } catch (cause) {
      failure.replaceChildren(
        el('p', { class: 'foreign' }, el('strong', {}, oneLine(cause.code ?? 'ERROR', 60)), ' ', oneLine(cause.message, 400)),
        ...(cause.remedy ? [el('p', { class: 'foreign' }, oneLine(cause.remedy, 400))] : []));
      show(failure, true);
      go.disabled = false;
      go.focus();
    }
  }

  /** Fill the form with what an earlier job was given; the key of the new job is a new one. */
  async function prefill(id) {
    try {
      const response = await fetch(new URL(`api/jobs/${encodeURIComponent(id)}/input`, document.baseURI), { credentials: 'same-origin', cache: 'no-store' });
      if (!response.ok) return;
      const given = parse(await response.text());
      if (!given) return;
      const [name, ...wanted] = String(given.agent ?? '').split('@');
      agent.value = name;
      versions();
      version.value = wanted.join('@');
      input.box.value = given.input === null ? '' : write(given.input, 2);
      lease.box.value = given.lease ? write(given.lease, 2) : '';
      limit.value = num(given.max_runtime) ?? '';
      if (given.lease || given.max_runtime) form.querySelector('details').open = true;
      put(heading, 'Run again with this input');
    } catch { /* the form stays empty */ }
  }

  draw(store.state);
  const from = route.query.get('from');
  let asked = false;
  const fill = () => {
    if (!from || asked || !store.state.agents.length) return;
    asked = true;
    prefill(from);
  };
  fill();
  const unfill = store.subscribe(fill);
  const stop = store.subscribe(draw);
  return { title: 'Submit a job', element, stop: () => { stop(); unfill(); } };
}

function area(id, label, hint, rows) {
  const box = el('textarea', { id, rows, spellcheck: 'false', autocomplete: 'off', 'aria-describedby': `${id}-hint ${id}-error` });
  const error = el('p', { id: `${id}-error`, class: 'error-text', hidden: true });
  const element = el('div', { class: 'field' }, el('label', { for: id }, label), box, el('p', { id: `${id}-hint`, class: 'hint' }, hint), error);
  const fail = (words) => {
    put(error, words);
    show(error, Boolean(words));
    set(box, 'aria-invalid', words ? 'true' : null);
  };
  /** What was typed, as it is; null for none; undefined if it is wrong, which the page then says. */
  function read(check) {
    const text = box.value.trim();
    if (!text) {
      fail('');
      return null;
    }
    const { value, message, line, column } = parseJson(box.value);
    const words = message ? `Not JSON, line ${line}, column ${column}: ${message}` : check(value);
    fail(words);
    return words ? undefined : new RawJson(text);
  }
  // Told at submit, then kept true while the text is mended. Not on leaving the field: what appears
  // there pushes the button away from under the pointer.
  let checked = () => '';
  box.addEventListener('input', () => {
    if (box.hasAttribute('aria-invalid')) read(checked);
  });
  return {
    element,
    box,
    read(check) {
      checked = check ?? checked;
      return read(checked);
    },
  };
}

function isLease(value) {
  const isMap = value && typeof value === 'object' && !Array.isArray(value);
  const good = isMap && Object.values(value).every((list) => Array.isArray(list) && list.every((each) => typeof each === 'string'));
  return good ? '' : 'A lease is an object: each namespace has a list of patterns.';
}

function freshKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return `web-${[...bytes].map((b) => b.toString(16).padStart(2, '0')).join('')}`;
}
