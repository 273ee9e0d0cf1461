"""Handles HTTP requests: who may send them, what they contain, how they are answered."""
