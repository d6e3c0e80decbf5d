"""The paper's network, one file per box of its figure; imports torch alone."""
