/** Makes DOM elements; no other module does. Text is never parsed as markup. */

const SVG = 'http://www.w3.org/2000/svg';
const REFUSED = /^(on|style$|srcdoc$|src$|action$|formaction$)/i;

/**
 * Make an element.
 *
 * `attributes` holds attribute values; `false`, `null` and `undefined` leave one out, `true` sets it
 * empty. `on` maps event names to listeners. Children are elements, or texts, which are never
 * markup. An attribute that could carry code or load something is refused: what an agent sends
 * must have no way there.
 */
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === 'on') {
      for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    } else {
      set(element, name, value);
    }
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** Set or remove one attribute, and touch the document only if it differs. */
export function set(element, name, value) {
  if (REFUSED.test(name)) throw new TypeError(`attribute ${name} is not for data`);
  if (name === 'href' && !/^(#|api\/)/.test(value)) throw new TypeError('a link of this page stays in it');
  if (value === false || value === null || value === undefined) {
    if (element.hasAttribute(name)) element.removeAttribute(name);
    return;
  }
  const text = value === true ? '' : String(value);
  if (element.getAttribute(name) !== text) element.setAttribute(name, text);
}

/** Give an element one text, and touch the document only if it differs. */
export function put(element, text) {
  const wanted = text === null || text === undefined ? '' : String(text);
  if (element.textContent !== wanted) element.textContent = wanted;
}

/** Show or hide, by the `hidden` attribute. */
export function show(element, visible) {
  if (element.hidden === Boolean(visible)) element.hidden = !visible;
}

const SHAPES = {
  dot: 'M8 4a4 4 0 1 0 0 8 4 4 0 0 0 0-8z',
  ring: 'M8 3a5 5 0 1 0 0 10A5 5 0 0 0 8 3zm0 2a3 3 0 1 1 0 6 3 3 0 0 1 0-6z',
  check: 'M6.4 12.6 2 8.2l1.4-1.4 3 3 6.2-6.2L14 5z',
  cross: 'M8 6.6 4.4 3 3 4.4 6.6 8 3 11.6 4.4 13 8 9.4l3.6 3.6 1.4-1.4L9.4 8 13 4.4 11.6 3z',
  warn: 'M8 1 .5 14.5h15zM7.2 6h1.6v4.5H7.2zm0 5.7h1.6v1.5H7.2z',
  stop: 'M3 3h10v10H3z',
  clock: 'M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13zm0 1.6a4.9 4.9 0 1 1 0 9.8 4.9 4.9 0 0 1 0-9.8zM7.2 4.5h1.6v3.2l2.4 1.4-.8 1.4-3.2-1.9z',
  turn: 'M8 2.5a5.5 5.5 0 1 0 5.4 6.6h-1.7A3.9 3.9 0 1 1 8 4.1c1.1 0 2.1.5 2.8 1.2L9 7h5V2l-2 2a5.5 5.5 0 0 0-4-1.5z',
  play: 'M4 2.5v11l9-5.5z',
  pause: 'M4 3h3v10H4zm5 0h3v10H9z',
  chevron: 'M6 3.5 10.5 8 6 12.5 4.8 11.3 8.1 8 4.8 4.7z',
  child: 'M3 2h1.6v6.2h5.3L7.8 6.1 9 5l4 4-4 4-1.2-1.1 2.1-2.1H3z',
  tool: 'M10.7 1.5a3.8 3.8 0 0 0-3.5 5.2L1.8 12.1l2.1 2.1 5.4-5.4a3.8 3.8 0 0 0 5-4.6L11.9 6.6 9.7 6.3 9.4 4.1l2.4-2.4a3.8 3.8 0 0 0-1.1-.2z',
  text: 'M2 3h12v1.6H2zm0 4.2h12v1.6H2zm0 4.2h8V13H2z',
  thought: 'M8 2C4.4 2 1.5 4.2 1.5 7c0 1.5.9 2.9 2.3 3.8L3.5 14l3.2-2.1c.4.1.9.1 1.3.1 3.6 0 6.5-2.2 6.5-5S11.6 2 8 2z',
  gauge: 'M8 3a6.5 6.5 0 0 0-6.5 6.5c0 1.3.4 2.5 1 3.5h11c.6-1 1-2.2 1-3.5A6.5 6.5 0 0 0 8 3zm3.6 3.5L9 10a1.2 1.2 0 1 1-1.1-1z',
  file: 'M3.5 1.5h6l3 3v10h-9zm1.6 1.6v9.8h5.8V5.6H8.4V3.1z',
  flag: 'M3 1.5h1.6V2.5h8.4l-2 3 2 3H4.6v6H3z',
  gap: 'M1.5 7.2H5v1.6H1.5zm9.5 0h3.5v1.6H11zM6.3 4l1.4.4L6.5 12l-1.4-.4zm3 0 1.4.4L9.5 12l-1.4-.4z',
  bars: 'M2 9h2.6v5H2zm4.7-4h2.6v9H6.7zm4.7-3H14v12h-2.6z',
};

/** A small icon beside a word, hidden from assistive technology. */
export function icon(shape) {
  const svg = document.createElementNS(SVG, 'svg');
  svg.setAttribute('viewBox', '0 0 16 16');
  svg.setAttribute('class', `icon icon-${shape}`);
  svg.setAttribute('aria-hidden', 'true');
  svg.setAttribute('focusable', 'false');
  const path = document.createElementNS(SVG, 'path');
  path.setAttribute('d', SHAPES[shape] ?? SHAPES.dot);
  path.setAttribute('fill-rule', 'evenodd');
  svg.append(path);
  return svg;
}
