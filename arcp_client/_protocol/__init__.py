"""The protocol of the specification as a state machine, without sockets, event loop or clock.

The entry is `session`: its caller, ``_link``, calls a method of `Session` and then carries out the
actions that the session returns. ``_wire`` is the layer below and decodes frames.

S1, D6 and the like are rules in ``docs/explanation/rules.md``; § is a section of the specification.
"""
