"""Implements the commands, whose options `commands` declares."""
