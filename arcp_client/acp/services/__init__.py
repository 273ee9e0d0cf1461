"""What a client offers to its agent: files, terminals, and answers to permission requests."""
