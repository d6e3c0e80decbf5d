"""Scores of event files against references, by every official protocol, to the last digit.

Flow: `rows` reads the files as they stand; `tokens` and `meteor` answer each distinct sentence and pair once;
`captioning`, `soda`, `paragraph`, `localization` and `segments` turn them into scores; `evaluate` runs the parts asked
for with a `coverage` report; `compare` sets two systems side by side; `result` and `report` write it down. `native`
is METEOR and the tokenizer without Java, `java` their originals and check. Neither torch nor av is imported.
"""
