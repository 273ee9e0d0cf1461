"""Moves frames between transports and the session: all tasks and timers of a client are here.

The decisions come from ``_protocol``, which is below; ``_client`` is above.
"""
