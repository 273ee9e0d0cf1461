/** Builds the form that answers a question, from its options or its JSON Schema. */

import { el, put, set, show } from './dom.js';
import { parseJson } from './json.js';
import { num } from './numbers.js';
import { oneLine, preview } from './text.js';

const BUTTONS = 8;                           // more choices than these are a list
const FIELDS = 30;
let numbers = 0;

/**
 * `{element, disable(yes)}`: a button for each choice, or fields and one button. `answer(value)` is
 * called with what was chosen; values have the digits that the agent or the person wrote.
 */
export function questionForm(question, answer) {
  const schema = plain(question.schema, question.schema);
  const choices = choicesOf(question.options, schema);
  if (choices && choices.length <= BUTTONS) return buttons(choices, answer);
  return fields(schema, choices, answer);
}

/** What can be chosen: `[{value, label}]`, or null if it is not a choice. */
export function choicesOf(options, schema) {
  if (Array.isArray(options) && options.length) {
    return options.map(({ value, label }) => ({ value, label: oneLine(label || preview(value, 120), 120) }));
  }
  if (Array.isArray(schema?.enum) && schema.enum.length) return schema.enum.map((value) => ({ value, label: preview(value, 120) }));
  if (schema?.type === 'boolean') return [{ value: true, label: 'Yes' }, { value: false, label: 'No' }];
  return null;
}

function buttons(choices, answer) {
  const made = choices.map(({ value, label }) => el('button', { type: 'button', class: 'button foreign', on: { click: () => answer(value) } }, label));
  return {
    element: el('div', { class: 'buttons' }, made),
    disable(yes) { for (const each of made) each.disabled = yes; },
  };
}

function fields(schema, choices, answer) {
  const whole = field(schema, { label: 'Answer', required: true, choices, long: true, root: schema });
  const go = el('button', { type: 'submit', class: 'button primary' }, 'Answer');
  const element = el('form', { class: 'form', novalidate: true, on: {
    submit(event) {
      event.preventDefault();
      const found = whole.read();
      if (found.wrong) found.wrong.focus();
      else answer(found.value);
    },
  } }, whole.element, el('p', { class: 'buttons' }, go));
  return { element, disable(yes) { go.disabled = yes; } };
}

/** A field for one value. `read()` is `{value}`, `{}` if it was left out, or `{wrong: element}`. */
function field(given, { label, required, root, choices = null, long = false, depth = 0 }) {
  const schema = plain(given, root);
  const name = oneLine(schema?.title || label, 80);
  const hint = schema?.description ? oneLine(schema.description, 300) : '';
  const chosen = choices ?? choicesOf([], schema);
  if (chosen) return choice(chosen, { name, hint, required });
  const properties = schema?.type === 'object' && schema.properties && typeof schema.properties === 'object' ? Object.entries(schema.properties) : [];
  if (properties.length && properties.length <= FIELDS && depth < 2) return group(schema, properties, { name, hint, root, depth, required });
  switch (schema?.type) {
    case 'string':
      return typed(el(long || num(schema.maxLength) > 200 ? 'textarea' : 'input', { autocomplete: 'off', rows: long ? 3 : null }), { name, hint, required, read: (text) => ({ value: text }), empty: (num(schema.minLength) ?? 0) === 0 && required });
    case 'integer':
    case 'number':
      return typed(el('input', { autocomplete: 'off', inputmode: schema.type === 'integer' ? 'numeric' : 'decimal' }), { name, hint, required, read: (text) => number(text, schema.type) });
    default:
      return typed(el('textarea', { rows: 4, spellcheck: 'false' }), { name, hint: [hint, 'JSON'].filter(Boolean).join('. '), required, read: json });
  }
}

function choice(choices, { name, hint, required }) {
  const id = `answer-${(numbers += 1)}`;
  const select = el('select', { id, 'aria-describedby': hint ? `${id}-hint` : null },
    el('option', { value: '' }, required ? 'choose' : 'none'),
    choices.map(({ label }, at) => el('option', { value: at }, label)));
  return boxed(id, name, hint, select, () => {
    if (select.value !== '') return { value: choices[Number(select.value)].value };
    return required ? { error: 'Choose one.' } : {};
  });
}

function typed(box, { name, hint, required, read, empty = false }) {
  const id = `answer-${(numbers += 1)}`;
  set(box, 'id', id);
  set(box, 'aria-describedby', `${hint ? `${id}-hint ` : ''}${id}-error`);
  return boxed(id, name, hint, box, () => {
    if (box.value === '' && !empty) return required ? { error: 'An answer is needed.' } : {};
    return read(box.value);
  });
}

function boxed(id, name, hint, box, look) {
  const error = el('p', { id: `${id}-error`, class: 'error-text', hidden: true });
  const element = el('div', { class: 'field' }, el('label', { for: id, class: 'foreign' }, name), box,
    hint ? el('p', { id: `${id}-hint`, class: 'hint foreign' }, hint) : null, error);
  return {
    element,
    read() {
      const found = look();
      put(error, found.error ?? '');
      show(error, Boolean(found.error));
      set(box, 'aria-invalid', found.error ? 'true' : null);
      return found.error ? { wrong: box } : found;
    },
  };
}

function group(schema, properties, { name, hint, root, depth, required }) {
  const needed = new Set(Array.isArray(schema.required) ? schema.required : []);
  const parts = properties.map(([key, each]) => [key, field(each, { label: key, required: needed.has(key), root, depth: depth + 1 })]);
  const element = el('fieldset', { class: 'form' }, el('legend', { class: 'foreign' }, name),
    hint ? el('p', { class: 'hint foreign' }, hint) : null, parts.map(([, part]) => part.element));
  return {
    element,
    read() {
      const value = Object.create(null);     // an agent may name a field "__proto__"
      let wrong = null;
      for (const [key, part] of parts) {
        const found = part.read();
        wrong ??= found.wrong ?? null;
        if ('value' in found) value[key] = found.value;
      }
      if (wrong) return { wrong };
      return required || Object.keys(value).length ? { value } : {};
    },
  };
}

function number(text, type) {
  const { value } = parseJson(text.trim());
  if (value === undefined || num(value) === null || (type === 'integer' && !Number.isInteger(num(value)))) {
    return { error: type === 'integer' ? 'Enter a whole number.' : 'Enter a number, such as 2.5.' };
  }
  return { value };
}

function json(text) {
  const found = parseJson(text);
  return found.message ? { error: `Not JSON, line ${found.line}, column ${found.column}: ${found.message}` } : { value: found.value };
}

/** The schema with its reference followed, and without "or null". */
function plain(schema, root, hops = 0) {
  if (!schema || typeof schema !== 'object' || hops > 8) return schema;
  if (typeof schema.$ref === 'string' && schema.$ref.startsWith('#/$defs/')) {
    const name = schema.$ref.slice(8);
    const found = root?.$defs && Object.hasOwn(root.$defs, name) ? root.$defs[name] : null;
    const { $ref, ...more } = schema;
    return plain({ ...found, ...more }, root, hops + 1);
  }
  const some = Array.isArray(schema.anyOf) ? schema.anyOf.filter((each) => each?.type !== 'null') : [];
  if (some.length === 1) {
    const { anyOf, ...more } = schema;
    return plain({ ...some[0], ...more }, root, hops + 1);
  }
  return schema;
}
