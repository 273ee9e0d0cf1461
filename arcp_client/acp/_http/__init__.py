"""The streamable HTTP transport: POST for what the client sends, event streams for the rest."""
