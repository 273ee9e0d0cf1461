"""The parts of a `Client`, each with its own state; ``wiring`` connects them.

::

    socket ─▶ engine ─▶ consumers ─▶ your handlers, iterators, Observables
               session,  │        │
               link,     └────▶ jobs ────▶ Job.result(), async for
               checkpoint
                  ▲
    submit ─▶ commands       lifecycle: connect, close; states: `client.state`

S1, D6 and the like are rules in ``docs/explanation/rules.md``; § is a section of the specification.
"""
