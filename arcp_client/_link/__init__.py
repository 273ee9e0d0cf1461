"""Moves frames between transports and the session, and runs a client's tasks and timers.

``_protocol`` is the layer below and makes the decisions; ``_client`` is the layer above.
"""
