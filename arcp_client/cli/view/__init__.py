"""Writes the output of the commands: live on a terminal, as lines, or as JSON."""
