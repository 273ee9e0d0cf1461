"""Implements `arcp_client.rx`: Rx operators with ordered async handlers.

=========== ========================================================
``delivery`` reports to a source which items are processed
``buffer``   queues items within limits
``channel``  is the bounded source of an operator
``source``   takes items from an async iterable, and acknowledges them
``sink``     has the base of all subscribers
``handling`` calls handlers
``serial``   calls one handler at a time
``keyed``    calls one handler at a time for each key
``stream``   makes async iterators
=========== ========================================================
"""
