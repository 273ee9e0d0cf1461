"""Delivers the events of a session to handlers, iterators and Observables, in arrival order."""
