"""Keeps events: the replay buffers in memory, and the durable log behind them."""
