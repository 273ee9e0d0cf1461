"""Stores events in memory, for resumes and subscribers, and in a durable log if there is one."""
