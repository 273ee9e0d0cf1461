"""Delivers the events of a session to handlers, iterators and Observables, in arrival order.

S1, D6 and the like are rules in ``docs/explanation/rules.md``; § is a section of the specification.
"""
