"""Stores events: replay buffers in memory, and the durable log behind them."""
