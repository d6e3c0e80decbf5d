"""The short list: at most so many events of a video that hardly overlap, the best together by score.

It is what `--top` tells; baselines are cut down by the same rule, or a model would be ahead by the rule alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from densevid.config import InferenceConfig
from densevid.events import Event
from densevid.inference.summary import SummaryRules, choose

RULE = "at most so many that hardly overlap, by score"


def short_list(events: Sequence[Event], count: int) -> list[Event]:
    """Those that are chosen, in the order given."""
    if not events:
        return []
    rules = SummaryRules(overlap=InferenceConfig().summary_overlap, top=count)
    spans_E2 = torch.tensor([(event.start, event.end) for event in events], dtype=torch.float64)
    score_E = torch.tensor([event.score for event in events], dtype=torch.float64)
    kept_E = choose(spans_E2[None], score_E[None], count, rules)[0].tolist()
    return [event for event, kept in zip(events, kept_E, strict=True) if kept]
