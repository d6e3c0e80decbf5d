"""The web app: a page to drop a video on, a queue that captions one after another, and a small HTTP API."""
