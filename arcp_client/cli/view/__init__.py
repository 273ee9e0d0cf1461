"""Output of the commands: live on a terminal, as lines, or as JSON."""
