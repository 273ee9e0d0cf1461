"""Frames ⇄ messages, pure: the only JSON and the only wire names of the package (§5–§8)."""
