"""The parts of a `Client`, each with its own state; ``wiring`` connects them.

::

    socket ─▶ engine ─▶ consumers ─▶ your handlers, iterators, Observables
               session,  │        │
               link,     └────▶ jobs ────▶ Job.result(), async for
               checkpoint
                  ▲
    submit ─▶ commands       lifecycle: connect, close; states: `client.state`
"""
