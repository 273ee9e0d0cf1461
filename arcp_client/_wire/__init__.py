"""Encodes and decodes frames; defines their JSON and their field names (§5–§8)."""
