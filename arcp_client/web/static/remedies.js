/** Tells what the user can do about each error code. Pure. */

const REMEDIES = {
  __proto__: null,
  PERMISSION_DENIED: 'The lease or the runtime’s policy does not allow this. Ask for the missing capability in the lease.',
  LEASE_SUBSET_VIOLATION: 'A child asked for more than its parent may do. Delegate a part of the parent’s lease only.',
  LEASE_EXPIRED: 'The lease ran out. Submit the job again with a later expiry.',
  BUDGET_EXHAUSTED: 'The budget is spent. Submit the job again with a larger cost.budget, or find out what spent it in the metrics.',
  JOB_NOT_FOUND: 'The runtime does not know this job: it may have ended long ago, or belong to another user.',
  DUPLICATE_KEY: 'The same idempotency key was used with other parameters. Use a new key for a new job.',
  AGENT_NOT_AVAILABLE: 'The runtime has no such agent. Choose one of its inventory.',
  AGENT_VERSION_NOT_AVAILABLE: 'The runtime has the agent, but not this version. Choose another version.',
  CANCELLED: 'Somebody cancelled the job. Submit it again if that was a mistake.',
  TIMEOUT: 'The job took longer than it was allowed to. Submit it again with a larger max_runtime, or with less to do.',
  RESUME_WINDOW_EXPIRED: 'The session was away for too long. Jobs went on: watch them from a new session.',
  HEARTBEAT_LOST: 'The connection was silent for too long. Check the network; the client reconnects by itself.',
  JOB_LOST: 'This job can no longer be followed. Load the page again to look for it anew.',
  INVALID_REQUEST: 'The runtime did not accept the input. Compare it with what the agent expects.',
  UNAUTHENTICATED: 'The runtime refused the token. Start the dashboard with a valid one.',
  INTERNAL_ERROR: 'Something broke in the runtime or the agent. Trying again may help; its log says more.',
};

/** The remedy that came with an error, or the one for its code. */
export function remedyFor(error) {
  if (error?.remedy) return String(error.remedy);
  const known = REMEDIES[error?.code];
  if (known) return known;
  return error?.retryable
    ? 'The runtime says that trying again may help.'
    : 'The transcript shows what happened before. Look at the last events, then at the runtime’s log.';
}
