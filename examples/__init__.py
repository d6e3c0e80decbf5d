"""Examples, one file each; run them from the repository: `python examples/NAME.py --help`."""
