"""Frames ⇄ messages, pure: the only place that knows frames as JSON, and wire names (§5–§8)."""
