"""Permissions, costs, tool calls, delegation and back-pressure of a `JobContext`."""
