"""One connection to an agent: JSON-RPC in both directions, and the lane of each session.

`reader` receives, `jsonrpc` sends, `connection` routes between them and the sessions and services.
`_session` and `services` are above it; `arcp_client.transports` is below it.
"""
