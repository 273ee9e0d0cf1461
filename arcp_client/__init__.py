"""The front door; see below."""
