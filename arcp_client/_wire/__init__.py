"""Encodes and decodes frames. No other package knows their JSON and field names (§5–§8)."""
