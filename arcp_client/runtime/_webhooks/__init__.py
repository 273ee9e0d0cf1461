"""Calls URLs when a question is opened or settled, and when a job ends."""
