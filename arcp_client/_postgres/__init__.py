"""Connections to PostgreSQL and the schema that the event log and the store share."""
