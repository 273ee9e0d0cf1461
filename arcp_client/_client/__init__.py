"""The parts of a `Client`, each with its own state; ``parts`` joins them.

::

    socket ─▶ conversation ─▶ consumers ─▶ your handlers, iterators, Observables
               session,  │        │
               link,     └────▶ jobs ────▶ Job.result(), async for
               checkpoint
                  ▲
    submit ─▶ requester          life: connect, close; states: what `client.state` says
"""
