"""Services that a client offers to its agent: files, terminals and permission decisions."""
