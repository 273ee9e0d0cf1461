"""One session: its inbox, handlers, iterators and turns. `arcp_client.acp.session` is above it."""
