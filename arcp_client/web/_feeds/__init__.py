"""Keeps the events of jobs and streams them to the pages of the dashboard."""
