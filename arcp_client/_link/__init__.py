"""Motion: the only tasks and timers of a client. Decisions come from ``_protocol``."""
