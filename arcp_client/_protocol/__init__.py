"""Decisions, pure: frames and the time in, events and effects out. No socket, no loop, no clock."""
