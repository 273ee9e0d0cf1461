"""Links: WebSocket (aiohttp), stdio (child processes), memory. Frames in, frames out."""
