"""The protocol of the specification as a state machine, without sockets, loop or clock.

`session` is the entry: call its verbs, then carry out its actions. ``_link`` is above, ``_wire``
below.
"""
