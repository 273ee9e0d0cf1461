"""Implements the commands; `commands` declares their options."""
