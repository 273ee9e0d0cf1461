"""Encodes and decodes frames; no other package knows their JSON and field names (§5–§8)."""
