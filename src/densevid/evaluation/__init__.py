"""Official scores of dense captions, exact and fast: protocols, metrics and reports."""
