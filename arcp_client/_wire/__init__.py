"""Encodes and decodes frames: the only room that knows their JSON and their names (§5–§8)."""
