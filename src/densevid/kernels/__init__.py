"""The fast forms of `model/` and `inference/`: Triton kernels, CUDA graphs, packed decoding; registered on import.

Only `fast_forms.py` imports this package. Without it everything works, slower: nothing else may live here.
"""

from densevid.inference.generator import FAST_GENERATORS
from densevid.inference.nms import FAST_SUPPRESS
from densevid.inference.search import FAST_MOST_LIKELY
from densevid.kernels.caption_generator import build_fast_generators
from densevid.kernels.proposal_generator import fast_suppress
from densevid.kernels.proposal_heads import fast_heads
from densevid.kernels.word_decoder import fast_most_likely
from densevid.model.proposal_decoder import TRAINING_HEADS

TRAINING_HEADS.register(fast_heads)
FAST_SUPPRESS.register(fast_suppress)
FAST_MOST_LIKELY.register(fast_most_likely)
FAST_GENERATORS.register(build_fast_generators)
