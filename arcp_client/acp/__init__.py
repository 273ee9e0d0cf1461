"""Agents of the Agent Client Protocol: a command in, sessions whose updates come in order out."""
