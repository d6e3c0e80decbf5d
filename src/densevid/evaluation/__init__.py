"""Scores of event files against references by every official protocol of dense video captioning, without Java.

Flow: `files` reads predictions and references; `metrics.caption_index` tokenizes each distinct caption once and
`meteor.scorer` aligns each distinct pair of captions once; the modules of `protocols` turn them into scores;
`evaluate` runs the protocols and returns the `Evaluation` of `result`, with a `coverage` report; `compare` tests two
systems against each other and `report` formats tables. `meteor` holds METEOR 1.5 and the tokenizer of the official
evaluators in Python. Neither torch nor av is imported.
"""
