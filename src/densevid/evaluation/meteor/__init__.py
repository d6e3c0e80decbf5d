"""METEOR 1.5 and the tokenizer of the caption metrics without Java, equal to their jars in every number.

Flow of the tokenizer: `classfile -> lexer -> tokens`. Flow of METEOR: `normaliser`, `stemmer`, `words` and
`paraphrases` feed `corpus`; then `matching -> stretches -> alignment -> meteor`. `data` finds the files of the jars.
"""
