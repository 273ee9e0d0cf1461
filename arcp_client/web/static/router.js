/** Shows the view that the hash of the URL names, and moves the focus to its heading. */

const PAGES = new Set(['submit', 'replay', 'overview', 'compare', 'inbox']);

/**
 * `#/job/abc?at=5` → `{name: 'job', id: 'abc', query}`; what is unknown is the list of jobs. The query
 * is a URLSearchParams.
 */
export function parse(hash) {
  const [path, ...after] = hash.replace(/^#/, '').split('?');
  const query = new URLSearchParams(after.join('?'));
  const [, name = '', ...rest] = path.split('/');
  if (name === 'job' && rest.length) {
    try {
      const id = decodeURIComponent(rest.join('/'));
      if (id) return { name: 'job', id, query };
    } catch { /* no such address */ }
  }
  if (PAGES.has(name)) return { name, query };
  return { name: 'jobs', query };
}

let list = '#/';

/** Remember the address of the job list with its filters, for the way back to it. */
export function keepListHref(hash) {
  list = hash.startsWith('#/') ? hash : '#/';
}

/** The address of the job list as it was left. */
export function listHref() {
  return list;
}

/** The address of a job's page. */
export function jobHref(id) {
  return `#/job/${encodeURIComponent(id)}`;
}

/**
 * Show the view of each address.
 *
 * `views` maps names to functions that get the route and give `{title, element, stop}`. Only a move
 * within the page sets the focus: a page that has just been loaded leaves it to the browser.
 */
export function startRouter({ main, views, onRoute = () => {} }) {
  let current = null;

  function go(moved) {
    const route = parse(location.hash);
    for (const open of document.querySelectorAll('dialog[open]')) open.close();   // of the page before
    current?.stop?.();
    const view = views[route.name](route);
    current = view;
    main.replaceChildren(view.element);
    document.title = `${view.title} · ARCP dashboard`;
    onRoute(route);
    if (moved) {
      const heading = main.querySelector('h1');
      heading.tabIndex = -1;
      heading.focus({ preventScroll: true });
      window.scrollTo(0, 0);
    }
  }

  const moved = () => go(true);
  window.addEventListener('hashchange', moved);
  go(false);
  return {
    again: () => go(true),
    stop() {
      window.removeEventListener('hashchange', moved);
      current?.stop?.();
    },
  };
}
