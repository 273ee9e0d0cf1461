"""Numbers the events of each session and keeps them for a resume, with or without a connection."""
