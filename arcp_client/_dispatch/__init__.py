"""Delivery: events of the session in, handlers, iterators and Observables out, each in order."""
