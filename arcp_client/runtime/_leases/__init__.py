"""Implements leases: what a grant covers, its remaining budgets, and its credentials (§9)."""
