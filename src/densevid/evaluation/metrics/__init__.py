"""The metrics of sentences, as arrays over many pairs."""
