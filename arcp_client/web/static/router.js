/** Shows the view that the hash of the URL names, and moves the focus to its heading. */

/** `#/job/abc` → `{name: 'job', id: 'abc'}`; what is unknown is the list of jobs. */
export function parse(hash) {
  const [, name = '', ...rest] = hash.replace(/^#/, '').split('/');
  if (name === 'job' && rest.length) {
    try {
      const id = decodeURIComponent(rest.join('/'));
      if (id) return { name: 'job', id };
    } catch { /* no such address */ }
  }
  if (name === 'submit' || name === 'replay') return { name };
  return { name: 'jobs' };
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
