"""One connection to an agent: JSON-RPC in both directions, and the lane of each session.

`reader` receives messages, `jsonrpc` sends them, and `connection` routes them to and from the
sessions and services. `_session` and `services` are the layers above, `arcp_client.transports` the
layer below.
"""
