"""Accepts jobs, runs their agents, and retains jobs and outcomes for a limited time."""
