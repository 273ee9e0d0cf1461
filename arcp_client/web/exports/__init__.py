"""Converts the events of jobs to the formats of other user interfaces."""
