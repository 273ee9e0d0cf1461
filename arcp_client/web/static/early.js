/** Has the server read the job that the address names, while the browser still loads the page. */

const [, id] = /^#\/job\/([^?]+)/.exec(location.hash) ?? [];
// The page asks again for all that it shows, and shows why it is refused.
if (id) fetch(new URL(`api/jobs/${id}`, document.baseURI), { credentials: 'same-origin', cache: 'no-store' }).catch(() => {});
