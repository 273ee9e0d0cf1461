"""Frames ⇄ messages, pure: the only place that knows of frames as JSON and of wire names (§5–§8)."""
