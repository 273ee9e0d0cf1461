"""Implements permissions, costs, tool calls, delegation and back-pressure for `JobContext`."""
