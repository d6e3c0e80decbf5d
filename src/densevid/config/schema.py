"""The sections of the settings, one frozen dataclass for each room that reads it, and what no value of them may be.

`config` puts them together, reads files and flags into them and is where they are imported from. The defaults are the
paper's on ActivityNet Captions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from densevid.errors import InputError

ACTIVITYNET_KERNELS = (1, 2, 3, 4, 5, 7, 9, 11, 15, 21, 29, 41, 57, 71, 111, 161, 211, 251)


@dataclass(frozen=True)
class ModelConfig:
    """The network. `compat = "released"` follows the authors' code where it differs from the paper.

    `input_context` is how many steps, around each, its embedding reads (the paper: itself alone). The last five are
    for ablations, one difference each: `mask_gradient = false` lets nothing behind the event mask move a proposal,
    `word_gradient = false` lets the words alone move none, `mask_values = "logits"` and `input_dropout_of = "steps"`
    are the release's, `focus = "mask"` masks the first encoding instead of encoding again.
    """

    width: int = 1024
    hidden: int = 2048
    heads: int = 8
    layers: int = 2
    window: int = 480
    kernels: tuple[int, ...] = ACTIVITYNET_KERNELS
    stride_factor: int = 50
    mask: Literal["gated", "learned", "discrete"] = "gated"
    compat: Literal["paper", "released"] = "paper"
    encoder: Literal["self-attention", "bi-lstm"] = "self-attention"
    decoder: Literal["self-attention", "lstm"] = "self-attention"
    proposal_head: Literal["three-layer", "procnets"] = "three-layer"
    dropout: float = 0.2
    input_dropout: float = 0.1
    input_context: int = 1
    mask_gradient: bool = True
    word_gradient: bool = True
    mask_values: Literal["sigmoid", "logits"] = "sigmoid"
    input_dropout_of: Literal["channels", "steps"] = "channels"
    focus: Literal["encode", "mask"] = "encode"

    def check(self) -> None:
        """Raise on a value that no model can have."""
        for name in ("width", "hidden", "heads", "layers", "window", "stride_factor"):
            _require(getattr(self, name) >= 1, f"model.{name}", getattr(self, name), "must be at least 1")
        _require(self.width % self.heads == 0, "model.heads", self.heads, f"must divide model.width = {self.width}")
        if self.mask != "discrete":
            reason = f"must be divisible by 4 with model.mask = {self.mask!r} (four sinusoids share it)"
            _require(self.width % 4 == 0, "model.width", self.width, reason)
        if self.encoder == "bi-lstm":
            reason = "must be even with model.encoder = 'bi-lstm' (two directions share it)"
            _require(self.width % 2 == 0, "model.width", self.width, reason)
        _require(bool(self.kernels), "model.kernels", list(self.kernels), "must not be empty")
        _require(min(self.kernels) >= 1, "model.kernels", list(self.kernels), "must be at least 1 each")
        longest = max(self.kernels)
        _require(longest <= self.window, "model.kernels", longest, f"is longer than model.window = {self.window}")
        for name in ("dropout", "input_dropout"):
            _require(0 <= getattr(self, name) < 1, f"model.{name}", getattr(self, name), "must be in [0, 1)")
        odd = self.input_context >= 1 and self.input_context % 2 == 1
        _require(odd, "model.input_context", self.input_context, "must be odd and at least 1")


@dataclass(frozen=True)
class FeaturesConfig:
    """What the model reads: the streams side by side, and how the release's duration files become seconds per step."""

    streams: tuple[str, ...] = ("resnet", "bn")
    widths: tuple[int, ...] = (2048, 1024)
    seconds_per_step: float = 0.5
    duration_formula: Literal["activitynet", "youcook2"] = "activitynet"
    min_word_count: int = 5

    def check(self) -> None:
        """Raise on a value that no feature track can have."""
        pairs = f"needs one entry per features.streams = {list(self.streams)}"
        _require(len(self.streams) == len(self.widths) > 0, "features.widths", list(self.widths), pairs)
        unique = len(set(self.streams)) == len(self.streams)
        _require(unique, "features.streams", list(self.streams), "names a stream twice")
        _require(min(self.widths) >= 1, "features.widths", list(self.widths), "must be at least 1 each")
        _require(self.seconds_per_step > 0, "features.seconds_per_step", self.seconds_per_step, "must be positive")
        _require(self.min_word_count >= 1, "features.min_word_count", self.min_word_count, "must be at least 1")


@dataclass(frozen=True)
class TrainingConfig:
    """How a model learns: the paper's recipe, SGD with Nesterov momentum, halved on plateau, norm clipped to 1.

    `batch_size` counts the videos that are encoded in a step, over all processes together. `proposal_loss` is the
    paper's, over `drawn` anchors, or `overlap`: every anchor learns to know its own overlap with an event;
    `offset_beta` is where the loss of the offsets turns from a square into a line.
    Where videos are composed of clips without end, an epoch has `timelines` of them, and beside the videos of a batch
    stand `clips_per_batch` clips as they are, from which captions alone are learnt, `sentences_per_clip` each;
    `clip_share` is the clips' part in the loss of the words. `channel_permuted` is the share of composed
    videos whose clips nobody can know again (`timelines/dataset.py`): they teach where events are, and no words. Where
    there are negatives, one video in `negatives_every` has no events (a prime, so that no process gets them all).
    `frozen_encoder` keeps what a model started from makes of a video: with task "captions" its proposals stay, too.
    `frozen_captioner` keeps how it says it: the words' loss then moves proposals and masks alone.
    """

    task: Literal["dense", "proposals", "captions"] = "dense"
    frozen_encoder: bool = False
    frozen_captioner: bool = False
    optimizer: Literal["sgd", "adam", "adamw"] = "sgd"
    learning_rate: float = 0.1
    momentum: float = 0.95
    betas: tuple[float, ...] = (0.9, 0.999)
    weight_decay: float = 1e-5
    gradient_clip: float = 1.0
    schedule: Literal["plateau", "cosine"] = "plateau"
    warmup_steps: int = 0
    plateau_factor: float = 0.5
    plateau_patience: int = 1
    epochs: int = 20
    batch_size: int = 56
    segments_per_video: int = 1
    precision: Literal["float32", "bfloat16"] = "float32"
    ema: float = 0.0
    features_on_device: bool = False
    seed: int = 0
    offset_weight: float = 10.0
    mask_weight: float = 1.0
    score_weight: float = 1.0
    word_weight: float = 0.25
    label_smoothing: float = 0.0
    reduction: Literal["mean", "sum"] = "mean"
    proposal_loss: Literal["drawn", "overlap"] = "drawn"
    offset_beta: float = 1.0
    positives: int = 10
    negatives: int = 10
    positive_iou: float = 0.7
    negative_iou: float = 0.3
    sampling_start: float = 0.0
    sampling_step: float = 0.0
    sampling_every: int = 5
    sampling_end: float = 0.0
    max_words: int = 20
    timelines: int = 4000
    clips_per_batch: int = 0
    sentences_per_clip: int = 1
    clip_share: float = 0.5
    channel_permuted: float = 0.0
    negatives_every: int = 13
    reward: Literal["none", "cider", "meteor", "cider+matches"] = "none"
    evaluate_every: int = 0
    evaluate_videos: int = 0
    best_by: Literal["loss", "cider", "meteor", "last"] = "loss"
    checkpoint_every: int = 500

    def check(self) -> None:
        """Raise on a value that no run can have."""
        positive = ("learning_rate", "gradient_clip", "epochs", "batch_size", "positives", "negatives", "max_words")
        for name in (
            *positive,
            "offset_beta",
            "sampling_every",
            "segments_per_video",
            "sentences_per_clip",
            "timelines",
            "negatives_every",
        ):
            _require(getattr(self, name) > 0, f"training.{name}", getattr(self, name), "must be positive")
        weights = ("offset_weight", "mask_weight", "score_weight", "word_weight", "weight_decay")
        counts = ("warmup_steps", "clips_per_batch", "evaluate_every", "evaluate_videos", "checkpoint_every", "seed")
        for name in (*weights, *counts, "plateau_patience"):
            _require(getattr(self, name) >= 0, f"training.{name}", getattr(self, name), "must not be negative")
        _require(0 <= self.plateau_factor < 1, "training.plateau_factor", self.plateau_factor, "must be in [0, 1)")
        fractions = ("momentum", "positive_iou", "negative_iou", "clip_share", "channel_permuted")
        for name in (*fractions, "sampling_start", "sampling_step", "sampling_end"):
            _require(0 <= getattr(self, name) <= 1, f"training.{name}", getattr(self, name), "must be in [0, 1]")
        for name in ("ema", "label_smoothing"):
            _require(0 <= getattr(self, name) < 1, f"training.{name}", getattr(self, name), "must be in [0, 1)")
        pair = len(self.betas) == 2 and all(0 <= beta < 1 for beta in self.betas)
        _require(pair, "training.betas", list(self.betas), "must be two numbers in [0, 1)")
        if self.best_by in ("cider", "meteor"):
            reason = f"must be at least 1 with training.best_by = {self.best_by!r}"
            _require(self.evaluate_every > 0, "training.evaluate_every", self.evaluate_every, reason)
        reason = "rewards sentences, which training.task = 'proposals' does not write"
        _require(self.reward == "none" or self.task != "proposals", "training.reward", self.reward, reason)
        reason = "leaves nothing to learn with training.task = 'captions' and a frozen encoder"
        idle = self.task == "captions" and self.frozen_encoder and self.frozen_captioner
        _require(not idle, "training.frozen_captioner", self.frozen_captioner, reason)
        reason = "needs training.proposal_loss = 'overlap', which learns from videos without sentences, too"
        _require(
            not self.channel_permuted or self.proposal_loss == "overlap",
            "training.channel_permuted",
            self.channel_permuted,
            reason,
        )
        reason = f"must not exceed training.positive_iou = {self.positive_iou}"
        _require(self.negative_iou <= self.positive_iou, "training.negative_iou", self.negative_iou, reason)


@dataclass(frozen=True)
class InferenceConfig:
    """Which proposals become events, and how long a sentence may be.

    `min_proposals` and `max_proposals` count after suppression; `min_before_suppression` is how many of the best
    anchors enter suppression even below the threshold (paper 0, release 200). Words are chosen greedily (`beam = 1`) or
    by beam search, where `length_penalty` is the power of the length that a sentence's log-probability is divided by,
    and `no_repeat` the number of words in a row that no sentence says twice (0: no such rule). With `mbr_weight` the
    sentence of the beam that is most like all of them is said, each counted by this power of its probability, and
    `length_penalty` has no part in it (0: the likeliest is said). Where a model has words that it expects of features
    (`model/priors.py`), they count `word_prior_weight` times in that choice.

    Steps whose event mask is at most `mask_floor` count as zeros and are not encoded: 0 leaves every number as it is.
    With `border_reach` each border of a proposal moves to the strongest change of the features within about this share
    of its length, and with `border_weight` scores are multiplied by this power of how strong the changes at both
    borders are. With `contrast_weight` scores of what is left after suppression are multiplied by this power of how
    much an event stands out. Both compare steps by what their features have to do with words,
    where a model has expected words, or by the features themselves (`similarity_space`).

    A summary has at most `summary_events` events per window of the video; one must be more probably right than
    `summary_confidence`, or nothing is told, and those beside it more than `summary_beside`, if that is less. Two share
    at most `summary_overlap` of their mean length. Of all such choices it is the one that is worth most, by confidence
    or by score (`summary_worth`).

    Of a video longer than the model's window all is read, or its first window; "auto" reads all but with
    `model.compat = "released"`.
    """

    score_threshold: float = 0.7
    min_before_suppression: int = 0
    suppression_iou: float = 0.9
    min_proposals: int = 50
    max_proposals: int = 500
    max_words: int = 20
    beam: int = 1
    length_penalty: float = 0.0
    no_repeat: int = 0
    mbr_weight: float = 0.0
    word_prior_weight: float = 3.0
    mask_floor: float = 0.0
    border_reach: float = 0.0
    border_weight: float = 0.0
    contrast_weight: float = 0.0
    similarity_space: Literal["words", "features"] = "words"
    summary_events: int = 10
    summary_confidence: float = 0.4
    summary_beside: float = 1.0
    summary_overlap: float = 0.2
    summary_worth: Literal["confidence", "score"] = "confidence"
    read: Literal["auto", "all", "first-window"] = "auto"

    def check(self) -> None:
        """Raise on a value that no inference can have."""
        shares = ("border_reach", "border_weight", "contrast_weight")
        for name in (
            "score_threshold",
            "suppression_iou",
            "mask_floor",
            "summary_confidence",
            "summary_beside",
            *shares,
        ):
            _require(0 <= getattr(self, name) <= 1, f"inference.{name}", getattr(self, name), "must be in [0, 1]")
        sentences = ("length_penalty", "no_repeat", "mbr_weight", "word_prior_weight")
        for name in ("min_before_suppression", "min_proposals", *sentences):
            _require(getattr(self, name) >= 0, f"inference.{name}", getattr(self, name), "must not be negative")
        for name in ("max_proposals", "max_words", "beam", "summary_events"):
            _require(getattr(self, name) >= 1, f"inference.{name}", getattr(self, name), "must be at least 1")
        overlap = self.summary_overlap
        _require(0 <= overlap < 1, "inference.summary_overlap", overlap, "must be at least 0 and below 1")
        reason = "chooses among the sentences of a beam: needs inference.beam of 2 or more"
        _require(not self.mbr_weight or self.beam > 1, "inference.mbr_weight", self.mbr_weight, reason)
        reason = f"exceeds inference.max_proposals = {self.max_proposals}"
        _require(self.min_proposals <= self.max_proposals, "inference.min_proposals", self.min_proposals, reason)


def _require(holds: bool, key: str, value: Any, reason: str) -> None:
    if not holds:
        raise InputError(f"{key} = {value} {reason}")
