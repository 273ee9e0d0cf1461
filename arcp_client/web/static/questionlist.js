/** Shows questions as cards with their forms, and how each was closed, as it happens. */

import { el, put, show } from './dom.js';
import { write } from './numbers.js';
import { questionForm } from './questionform.js';
import { jobHref } from './router.js';
import { span } from './reasons.js';
import { send } from './stream.js';
import { clip, millis, oneLine, preview } from './text.js';

const NEWEST = 50;

/** How a question was closed, in words. */
export function outcomeWords(how) {
  const value = preview(how?.value ?? null, 160);
  switch (how?.state) {
    case 'answered': {
      const client = how.client ? ` with ${oneLine(how.client, 60)}` : '';
      return `Answered by ${oneLine(how.by || 'a client', 60)}${client}: ${value}`;
    }
    case 'expired':
      return how.defaulted ? `No answer came in time: the default holds, ${value}` : 'No answer came in time.';
    case 'withdrawn':
      return how.reason === 'job_ended' ? 'Withdrawn: the job has ended.' : 'Withdrawn: the agent no longer waits.';
    default:
      return 'Closed elsewhere.';
  }
}

function questionCard(question, { control, now, links, level, answered }) {
  const left = el('span', { class: 'muted' });
  const error = el('p', { class: 'error-text foreign', role: 'alert', hidden: true });
  const outcome = el('p', { class: 'outcome foreign', tabindex: '-1', hidden: true });
  const path = `api/jobs/${encodeURIComponent(question.job_id)}/answer`;
  const form = question.may_answer && control() ? questionForm(question, answer) : null;
  const closedTo = form ? null : el('p', { class: 'note' }, question.may_answer
    ? 'This dashboard only watches: start it with --allow-control to answer here.'
    : `Only for ${question.to.map((each) => oneLine(each, 40)).join(', ') || 'others'}.`);
  const element = el('li', { class: 'panel question' },
    el(`h${level}`, { class: 'question-text foreign' }, clip(question.text, 4000)),
    el('p', { class: 'muted foreign' },
      oneLine(question.agent || 'an agent', 80), ' · ',
      links ? el('a', { class: 'job', href: jobHref(question.job_id) }, oneLine(question.job_id, 80)) : null,
      links ? ' · ' : null, left),
    question.waiting === false ? el('p', { class: 'note' }, 'Its job was interrupted; the next job of this work gets the answer.') : null,
    form?.element ?? closedTo, error, outcome);
  let over = false;
  let sending = false;
  let key = null;                            // a second try of an answer is no second answer
  let keyFor = '';

  async function answer(value) {
    if (sending || over) return;
    sending = true;
    form.disable(true);
    show(error, false);
    const same = write({ value });
    if (key === null || keyFor !== same) {
      key = [...crypto.getRandomValues(new Uint32Array(4))].join('-');
      keyFor = same;
    }
    try {
      const { body } = await send(path, { question_id: question.question_id, value, idempotency_key: key });
      close(body, true);
      answered(body);
    } catch (cause) {
      put(error, [cause.message, cause.code?.startsWith('QUESTION_') ? '' : cause.remedy].filter(Boolean).map((part) => oneLine(part, 400)).join(' '));
      show(error, true);
      if (!over) form.disable(false);
    }
    sending = false;
  }

  /** Show how it was closed in place of the form. */
  function close(how, focus = element.contains(document.activeElement)) {
    over = true;
    put(outcome, outcomeWords(how));
    show(outcome, true);
    form?.element.remove();
    closedTo?.remove();
    put(left, '');
    if (focus) outcome.focus();
  }

  return {
    element,
    close,
    get over() { return over; },
    tick() {
      const expires = millis(question.expires_at);
      if (over || expires === null) return;
      const seconds = (expires - now()) / 1000;
      const fallback = question.has_default ? `, then ${preview(question.default, 60)}` : '';
      put(left, seconds > 0 ? `${span(seconds)} left${fallback}` : 'expires now');
    },
  };
}

/**
 * The open questions, oldest first, then those that were closed, newest first. Cards stay while they
 * are typed into. `update({open, closed})` brings the lists up to date.
 */
export function questionList({ control, now, links = true, level = 2, say = () => {}, title = 'Recently closed' }) {
  const openList = el('ul', { class: 'questions' });
  const closedList = el('ul', { class: 'questions' });
  const closedPart = el('section', { 'aria-label': title, hidden: true }, el(`h${level}`, {}, title), closedList);
  const element = el('div', {}, openList, closedPart);
  const cards = new Map();
  let allowed = null;
  let first = true;
  let count = 0;

  function make(question) {
    const card = questionCard(question, { control, now, links, level, answered: (how) => say(outcomeWords(how)) });
    cards.set(question.question_id, card);
    return card;
  }

  return {
    element,
    get open() { return count; },
    get size() { return cards.size; },
    update({ open, closed }) {
      if (allowed !== control()) {           // what may be done is known only now
        allowed = control();
        for (const [id, card] of cards) {
          card.element.remove();
          cards.delete(id);
        }
      }
      count = open.length;
      const there = new Set(open.map((each) => each.question_id));
      for (const question of open) {
        if (cards.has(question.question_id)) continue;
        openList.append(make(question).element);
        if (!first) say(`${oneLine(question.agent || 'An agent', 60)} asks: ${oneLine(question.text, 160)}`);
      }
      const outcomes = new Map(closed.map((each) => [each.question_id, each]));
      for (const question of [...closed].reverse()) {
        if (!cards.has(question.question_id)) {
          const card = make(question);
          card.close(question.outcome, false);
          closedList.prepend(card.element);
        }
      }
      for (const [id, card] of cards) {
        if (there.has(id)) continue;
        const how = outcomes.get(id)?.outcome;
        if (!card.over) {
          card.close(how);
          say(outcomeWords(how));
        } else if (how && how.state !== 'closed') card.close(how, false);
        if (card.element.parentElement === openList && !card.element.contains(document.activeElement)) closedList.prepend(card.element);
      }
      while (closedList.childElementCount > NEWEST) closedList.lastElementChild.remove();
      show(closedPart, closedList.childElementCount > 0);
      first = false;
      this.tick();
    },
    tick() { for (const card of cards.values()) card.tick(); },
  };
}
