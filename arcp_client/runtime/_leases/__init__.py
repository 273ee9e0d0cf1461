"""Leases: what a grant covers, what its budgets have left, and its credentials (§9)."""
