"""Moves frames between transports and the session, and runs a client's tasks and timers.

``_protocol`` is the layer below and makes the decisions; ``_client`` is the layer above.

S1, D6 and the like are rules in ``docs/explanation/rules.md``; § is a section of the specification.
"""
