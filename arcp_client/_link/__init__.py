"""Moves frames between transports and the session, with all tasks and timers of a client.

``_protocol``, below, makes the decisions; ``_client`` is the layer above.
"""
