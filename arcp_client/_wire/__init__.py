"""Frames ⇄ messages, pure: the only frames as JSON, and the only wire names (§5–§8)."""
