/** Computes the state that all pages share from the messages of the overview. Pure. */

export const initial = Object.freeze({
  phase: 'loading',        // loading · ready · login · failed
  error: null,
  runtime: { name: '', version: '' },
  dialect: '',
  features: [],
  agents: [],
  control: false,
  login: false,
  truncated: false,
  link: null,
  jobs: new Map(),
  skew: 0,                 // the server's clock minus this one's, in ms
  page: { state: 'connecting' },
});

/** The next state; the given one stays as it is. */
export function reduce(state, action) {
  switch (action.type) {
    case 'overview': {
      const { runtime, dialect, features, agents, control, login, truncated, link, jobs, now } = action.data;
      return {
        ...state,
        phase: 'ready',
        error: null,
        runtime: runtime ?? initial.runtime,
        dialect: dialect ?? '',
        features: features ?? [],
        agents: agents ?? [],
        control: Boolean(control),
        login: Boolean(login),
        truncated: Boolean(truncated),
        link: link ?? null,
        jobs: new Map((jobs ?? []).map((row) => [row.job_id, row])),
        skew: typeof now === 'number' ? now - action.at : state.skew,
      };
    }
    case 'link':
      return { ...state, link: action.data };
    case 'job':
    case 'jobs': {
      const jobs = new Map(state.jobs);
      for (const row of action.type === 'job' ? [action.data] : action.data) jobs.set(row.job_id, row);
      return { ...state, jobs };
    }
    case 'gone': {
      if (!state.jobs.has(action.data.job_id)) return state;
      const jobs = new Map(state.jobs);
      jobs.delete(action.data.job_id);
      return { ...state, jobs };
    }
    case 'page':
      return state.page.state === action.data.state ? state : { ...state, page: action.data };
    case 'again':
      return { ...initial, page: state.page };
    case 'login':
      return { ...state, phase: 'login', jobs: new Map(), link: null };
    case 'failed':
      return { ...state, phase: 'failed', error: action.data };
    default:
      return state;
  }
}

/** Holds one state; actions change it, and listeners are called at most once a frame. */
export function createStore(state = initial, schedule = (run) => requestAnimationFrame(run)) {
  const listeners = new Set();
  let waiting = false;
  let rows = [];                             // of many messages: one copy of the table for all of them
  const settle = () => {
    if (!rows.length) return;
    const data = rows;
    rows = [];
    state = reduce(state, { type: 'jobs', data });
  };
  return {
    get state() {
      settle();
      return state;
    },
    dispatch(action) {
      if (action.type === 'job') {
        rows.push(action.data);
      } else {
        settle();
        const next = reduce(state, action);
        if (next === state) return;
        state = next;
      }
      if (waiting) return;
      waiting = true;
      schedule(() => {
        waiting = false;
        settle();
        for (const listener of [...listeners]) listener(state);
      });
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}
