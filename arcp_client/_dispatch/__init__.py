"""Delivers the events of a session to handlers, iterators and Observables, to each in order."""
