"""One session: its inbox, iterators and turns. `arcp_client.acp.session` is the layer above."""
