"""One connection to an agent: JSON-RPC in both directions, and the order of what is handled."""
