"""Trimmed captioned clips become untrimmed, annotated timelines."""
