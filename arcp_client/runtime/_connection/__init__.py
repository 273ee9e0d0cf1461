"""Serves one link: authenticates, opens or resumes a session, answers requests, sends events."""
