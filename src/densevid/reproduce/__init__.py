"""The paper's tables as data, what fills them, and the trivial baselines that stand beside every result."""
