"""Accepts jobs, runs their agents, and keeps jobs and their outcomes for a while."""
