/** Turns Markdown of an agent into elements. Only texts and a few harmless elements come of it. */

import { el } from './dom.js';
import { visible } from './text.js';

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([\w+-]*)/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$/;
const RULE = /^ {0,3}(?:(?:-\s*){3,}|(?:\*\s*){3,}|(?:_\s*){3,})$/;
const ITEM = /^( {0,6})(?:[-*+]|(\d{1,9})[.)])\s+(.*)$/;
const INLINE = /(`+)([^`]|[^`][\s\S]*?[^`])\1(?!`)|\*\*(\S(?:[\s\S]*?\S)?)\*\*|\*(\S(?:[^*]*?\S)?)\*|\[([^\][]{1,500})\]\(([^()\s]{1,2000})\)/g;
const MOST_BLOCKS = 2000;

/**
 * The blocks of a Markdown text, as texts. Blocks in front of the last one do not change when the text
 * grows, so only the last one has to be drawn again.
 */
export function blocks(text) {
  const found = [];
  let block = [];
  let fence = null;
  const end = () => {
    if (block.length) found.push(block.join('\n'));
    block = [];
  };
  for (const line of text.split('\n')) {
    const mark = FENCE.exec(line);
    if (fence) {
      block.push(line);
      if (mark && mark[1].startsWith(fence) && !mark[2]) {
        fence = null;
        end();
      }
    } else if (mark) {
      end();
      fence = mark[1];
      block.push(line);
    } else if (!line.trim()) end();
    else {
      if (HEADING.test(line) || RULE.test(line)) end();
      block.push(line);
      if (HEADING.test(line) || RULE.test(line)) end();
    }
  }
  end();
  return found.slice(0, MOST_BLOCKS);
}

/** One block as an element. */
export function render(block) {
  const lines = block.split('\n');
  const fence = FENCE.exec(lines[0]);
  if (fence) {
    const closed = lines.length > 1 && FENCE.test(lines.at(-1));
    return el('pre', { class: 'foreign', tabindex: 0, 'aria-label': 'Code' }, el('code', {}, visible(lines.slice(1, closed ? -1 : undefined).join('\n'))));
  }
  const heading = HEADING.exec(lines[0]);
  if (heading) return el(`h${Math.min(6, heading[1].length + 2)}`, { class: 'foreign' }, inline(heading[2]));
  if (RULE.test(lines[0])) return el('hr');
  if (lines.every((line) => /^ {0,3}>/.test(line))) return el('blockquote', { class: 'foreign' }, inline(lines.map((line) => line.replace(/^ {0,3}> ?/, '')).join('\n')));
  if (ITEM.test(lines[0])) return list(lines);
  if (lines.length > 1 && /^\|?[\s:|-]+\|[\s:|-]*$/.test(lines[1]) && lines[0].includes('|')) return table(lines);
  return el('p', { class: 'foreign' }, inline(lines.join('\n')));
}

function list(lines) {
  const ordered = ITEM.exec(lines[0])[2] !== undefined;
  const items = [];
  for (const line of lines) {
    const item = ITEM.exec(line);
    if (item) items.push({ depth: Math.min(3, Math.floor(item[1].length / 2)), text: item[3] });
    else items.at(-1).text += `\n${line.trim()}`;
  }
  return el(ordered ? 'ol' : 'ul', { class: 'foreign', start: ordered ? ITEM.exec(lines[0])[2] : false },
    items.map(({ depth, text }) => el('li', { class: `depth-${depth}` }, inline(text))));
}

function table(lines) {
  const cells = (line) => line.trim().replace(/^\||\|$/g, '').split('|').slice(0, 40).map((cell) => cell.trim());
  return el('div', { class: 'table-scroll', tabindex: 0, role: 'region', 'aria-label': 'Table' }, el('table', { class: 'foreign' },
    el('thead', {}, el('tr', {}, cells(lines[0]).map((cell) => el('th', { scope: 'col' }, inline(cell))))),
    el('tbody', {}, lines.slice(2, 500).map((line) => el('tr', {}, cells(line).map((cell) => el('td', {}, inline(cell))))))));
}

/** Code, bold, italics and links; a link is shown with its address and leads nowhere. */
function inline(text) {
  const parts = [];
  let at = 0;
  for (const match of text.matchAll(INLINE)) {
    if (match.index > at) parts.push(visible(text.slice(at, match.index)));
    const [whole, , code, bold, italic, name, address] = match;
    if (code !== undefined) parts.push(el('code', {}, visible(code.trim() || code)));
    else if (bold !== undefined) parts.push(el('strong', {}, visible(bold)));
    else if (italic !== undefined) parts.push(el('em', {}, visible(italic)));
    else parts.push(`${visible(name)} (${visible(address)})`);
    at = match.index + whole.length;
  }
  if (at < text.length) parts.push(visible(text.slice(at)));
  return parts;
}

/** A box that shows a growing Markdown text; blocks that did not change stay as they are. */
export function markdownBox() {
  const element = el('div', { class: 'markdown' });
  let drawn = [];
  return {
    element,
    update(text) {
      const next = blocks(text);
      let same = 0;
      while (same < drawn.length && same < next.length && drawn[same] === next[same]) same += 1;
      while (element.children.length > same) element.lastChild.remove();
      for (const block of next.slice(same)) element.append(render(block));
      drawn = next;
    },
  };
}

/** Whether a text looks like Markdown, so that it is worth rendering. */
export function looksLikeMarkdown(text) {
  return /^ {0,3}(#{1,6}\s|```|~~~|[-*+] \S|\d+[.)] \S|> )|\*\*\S|`[^`\n]+`|^\|.+\|$/m.test(text.slice(0, 20000));
}
