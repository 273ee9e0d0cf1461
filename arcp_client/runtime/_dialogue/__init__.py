"""Lets agents ask questions, which people answer through their clients (an extension)."""
