/** Shows the login page of a dashboard that has a token. */

import { el, put, show } from './dom.js';
import { send } from './stream.js';

export function loginView({ done }) {
  const token = el('input', { id: 'token', type: 'password', autocomplete: 'current-password', required: true, 'aria-describedby': 'login-error', spellcheck: 'false' });
  const error = el('p', { id: 'login-error', class: 'error-text', role: 'alert', hidden: true });
  const go = el('button', { type: 'submit', class: 'button primary' }, 'Log in');
  const form = el('form', { class: 'panel login', novalidate: true, on: { submit } },
    el('h1', {}, 'Log in'),
    el('p', {}, 'This dashboard asks for the token that it was started with.'),
    el('p', { class: 'field' }, el('label', { for: 'token' }, 'Token'), token),
    error,
    el('p', { class: 'buttons' }, go));

  async function submit(event) {
    event.preventDefault();
    if (!token.value) return fail('Enter the token.');
    go.disabled = true;
    try {
      await send('login', { token: token.value });
      token.value = '';
      done();
    } catch (cause) {
      fail(cause.status === 401 ? 'This is not the token.' : [cause.message, cause.remedy].filter(Boolean).join(' '));
    } finally {
      go.disabled = false;
    }
  }

  function fail(words) {
    put(error, words);
    show(error, true);
    token.setAttribute('aria-invalid', 'true');
    token.focus();
  }

  return { title: 'Log in', element: form };
}
