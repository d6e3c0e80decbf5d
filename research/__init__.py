"""The paper's tables, the bundled model and reports; run from a checkout, not installed."""
