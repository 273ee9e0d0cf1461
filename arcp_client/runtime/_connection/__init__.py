"""Serves one link: authenticates the client, opens its session, answers requests, sends events."""
