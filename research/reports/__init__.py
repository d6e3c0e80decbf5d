"""Reports on data and models, as Markdown."""
