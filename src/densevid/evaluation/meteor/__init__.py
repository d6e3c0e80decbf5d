"""METEOR 1.5 and the Penn Treebank tokenizer of the official evaluators in Python, equal to their jars in every number.

Tokenizer: `ptb_lexer` -> `ptb_tokenizer`. METEOR: `normalizer`, `stemmer`, `resources` and `paraphrases` describe
words and phrases; `corpus` indexes sentences; `matchers` -> `search_plan` -> `beam_search` align pairs; `statistics`
counts and scores. `scorer` is the entry point: it caches results (`cache`) and spreads work over processes (`worker`).
"""
