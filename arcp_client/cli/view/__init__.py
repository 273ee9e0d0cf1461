"""What commands show: on a terminal, as lines, or as JSON."""
