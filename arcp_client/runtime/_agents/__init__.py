"""The parts of a `JobContext`: permissions, costs, tool calls, delegation and back-pressure."""
