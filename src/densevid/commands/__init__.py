"""One module per verb: `add_arguments(parser)` and `run(arguments)`; the module's docstring is the verb's help."""
