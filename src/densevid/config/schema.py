"""The sections of the settings: one frozen dataclass each, whose defaults are the paper's on ActivityNet Captions.

`check` raises on values that no model, run or inference can have. `loading` reads files and flags into them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from densevid.errors import InputError

MOST_TAGS = 400  # the classes of the smallest classifier, of Kinetics
ACTIVITYNET_KERNELS = (1, 2, 3, 4, 5, 7, 9, 11, 15, 21, 29, 41, 57, 71, 111, 161, 211, 251)


@dataclass(frozen=True)
class ModelConfig:
    """The network. The last five settings are for ablations, one difference from the paper each."""

    width: int = 1024  # channels of the transformer
    hidden: int = 2048  # channels inside its feed-forward layers
    heads: int = 8  # attention heads; they divide `width`
    layers: int = 2  # of the video encoder, and of the caption decoder
    window: int = 480  # steps of a video that are encoded at once
    kernels: tuple[int, ...] = ACTIVITYNET_KERNELS  # lengths of the anchors, in steps
    stride_factor: int = 50  # anchors of length k are ceil(k / stride_factor) steps apart
    # How a proposal masks the video: a gate between learned and discrete mask (the paper's), or one of the two alone.
    mask: Literal["gated", "learned", "discrete"] = "gated"
    compat: Literal["paper", "released"] = "paper"  # follow the paper, or the authors' code where it differs
    encoder: Literal["self-attention", "bi-lstm"] = "self-attention"  # of the video
    decoder: Literal["self-attention", "lstm"] = "self-attention"  # of captions; lstm is TempoAttn
    proposal_head: Literal["three-layer", "procnets"] = "three-layer"  # procnets: a full convolution each
    dropout: float = 0.2  # inside the transformer, in [0, 1)
    input_dropout: float = 0.1  # of the features, in [0, 1)
    # What the batch norms of the proposal heads make of padding while training: counted, as in the release, or masked,
    # so that a video's own steps and the anchors within it count alone. Compat "released" counts it either way.
    norm_padding: Literal["counted", "masked"] = "counted"
    input_context: int = 1  # steps that the embedding of a step reads, an odd number around it; the paper: itself alone
    mask_gradient: bool = True  # false: no gradient passes through the event mask to the proposals
    word_gradient: bool = True  # false: the caption loss does not change proposals
    mask_values: Literal["sigmoid", "logits"] = "sigmoid"  # values of the learned mask; logits are the release's
    input_dropout_of: Literal["channels", "steps"] = "channels"  # what input dropout drops; steps are the release's
    focus: Literal["encode", "mask"] = "encode"  # encode the masked event again, or mask the first encoding
    # Predicted classes of each stream (of ImageNet, of Kinetics) that the caption decoder reads and may copy the words
    # of, for streams that have a classifier; 0: none, as in the paper.
    tags: int = 0
    copy_tags: bool = True  # a pointer may copy the words of tags; false: the decoder only reads them

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
        _require(0 <= self.tags < MOST_TAGS, "model.tags", self.tags, f"must be at least 0 and below {MOST_TAGS}")


@dataclass(frozen=True)
class FeaturesConfig:
    """The features that the model reads."""

    streams: tuple[str, ...] = ("resnet", "bn")  # names of the streams, side by side
    widths: tuple[int, ...] = (2048, 1024)  # channels of each stream
    seconds_per_step: float = 0.5  # of the training features; a track knows its own
    duration_formula: Literal["activitynet", "youcook2"] = "activitynet"  # reads the release's duration files
    min_word_count: int = 5  # words that are rarer in the training captions become <unk>

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
    """How a model is trained. The default is the paper's recipe: SGD with Nesterov momentum, halved on plateau."""

    # What is trained: everything end to end, proposals alone, or captions of the true segments alone.
    task: Literal["dense", "proposals", "captions"] = "dense"
    frozen_encoder: bool = False  # keep the encoder of --from; with task "captions" its proposals stay, too
    frozen_captioner: bool = False  # keep the caption decoder of --from; captions then train proposals and masks alone

    optimizer: Literal["sgd", "adam", "adamw"] = "sgd"  # SGD with Nesterov momentum, Adam or AdamW
    learning_rate: float = 0.1  # after warm-up
    momentum: float = 0.95  # of SGD, in [0, 1]; Nesterov's
    betas: tuple[float, ...] = (0.9, 0.999)  # of Adam and AdamW
    weight_decay: float = 1e-5  # with AdamW not of norms and biases
    gradient_clip: float = 1.0  # the largest norm of the gradient
    schedule: Literal["plateau", "cosine"] = "plateau"  # lower the rate on plateaus, or by a cosine to zero
    warmup_steps: int = 0  # steps of linear warm-up
    plateau_factor: float = 0.5  # what a plateau multiplies the rate by, in [0, 1)
    plateau_patience: int = 1  # epochs without a better loss before it is a plateau
    epochs: int = 20  # passes over the segments, or over `timelines` composed videos
    batch_size: int = 56  # videos (segments if `segments_per_video` is 1) in a step, over all ranks together
    segments_per_video: int = 1  # segments of a video that are trained together and encoded once, at most
    precision: Literal["float32", "bfloat16"] = "float32"  # bfloat16 on GPUs, and CPUs with units for it
    ema: float = 0.0  # decay of the average of weights that is validated and saved, in [0, 1); 0: no average
    features_on_device: bool = False  # keep all features in the memory of the device
    seed: int = 0  # of weights, batches, drawn anchors and dropout

    offset_weight: float = 10.0  # of the boundary offsets in the loss
    mask_weight: float = 1.0  # of the event mask
    score_weight: float = 1.0  # of the event score
    word_weight: float = 0.25  # of the captions
    label_smoothing: float = 0.0  # of the caption loss while training, in [0, 1)
    reduction: Literal["mean", "sum"] = "mean"  # over steps and words: the release's means, or the paper's sums
    # Anchors that train proposals: the paper's drawn positives and negatives, or all, whose score learns their overlap.
    proposal_loss: Literal["drawn", "overlap"] = "drawn"
    positives: int = 10  # anchors drawn for each segment, at most
    negatives: int = 10  # anchors drawn for each segment, at most
    positive_iou: float = 0.7  # with the segment, from which on an anchor is positive
    negative_iou: float = 0.3  # with every segment, below which an anchor is negative

    sampling_start: float = 0.0  # scheduled sampling: the share of words that are replaced by generated ones at first,
    sampling_step: float = 0.0  # the rise of this share
    sampling_every: int = 5  # every so many epochs,
    sampling_end: float = 0.0  # up to this share; 0: no scheduled sampling
    max_words: int = 20  # of a training caption; the rest is cut off
    reward: Literal["none", "cider", "meteor", "cider+matches"] = "none"  # of sampled captions, which replace the true

    timelines: int = 4000  # composed videos in an epoch, with --timelines
    clips_per_batch: int = 0  # clips beside the composed videos of a batch, whose captions are trained
    sentences_per_clip: int = 1  # captions of such a clip, at most
    clip_share: float = 0.5  # of clips in the caption loss, in [0, 1]
    own_captions: float = 1.0  # weight of the timelines' own clips among the clips beside, with --captions
    stream_dropout: float = 0.0  # chance that a video is read without its streams after the first, in [0, 1)
    video_dropout: float = 0.0  # share of the clips beside that are captioned unseen, as a habit, in [0, 1)
    # How often a clip of --captions without the last stream gets tags of it that its annotators name, in [0, 1].
    taught_tags: float = 0.0
    channel_permuted: float = 0.0  # share of composed videos with permuted channels: they train proposals, no captions
    negatives_every: int = 13  # one composed video in so many has no events; a prime, so that no rank gets them all

    evaluate_every: int = 0  # epochs between scores of captions and proposals; 0: losses alone
    best_by: Literal["loss", "cider", "meteor", "last"] = "loss"  # which epoch is saved as the best model
    checkpoint_every: int = 500  # steps between checkpoints within an epoch; 0: one at the end of each epoch

    def check(self) -> None:
        """Raise on a value that no run can have."""
        positive = ("learning_rate", "gradient_clip", "epochs", "batch_size", "positives", "negatives", "max_words")
        for name in (
            *positive,
            "sampling_every",
            "segments_per_video",
            "sentences_per_clip",
            "timelines",
            "negatives_every",
        ):
            _require(getattr(self, name) > 0, f"training.{name}", getattr(self, name), "must be positive")
        weights = ("offset_weight", "mask_weight", "score_weight", "word_weight", "weight_decay")
        counts = ("warmup_steps", "clips_per_batch", "own_captions", "evaluate_every", "checkpoint_every", "seed")
        for name in (*weights, *counts, "plateau_patience"):
            _require(getattr(self, name) >= 0, f"training.{name}", getattr(self, name), "must not be negative")
        _require(0 <= self.plateau_factor < 1, "training.plateau_factor", self.plateau_factor, "must be in [0, 1)")
        fractions = ("momentum", "positive_iou", "negative_iou", "clip_share", "taught_tags", "channel_permuted")
        for name in (*fractions, "sampling_start", "sampling_step", "sampling_end"):
            _require(0 <= getattr(self, name) <= 1, f"training.{name}", getattr(self, name), "must be in [0, 1]")
        for name in ("ema", "label_smoothing", "stream_dropout", "video_dropout"):
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
    """How proposals become events, how sentences are searched, and what a summary shows."""

    score_threshold: float = 0.7  # of proposals, in [0, 1]
    min_before_suppression: int = 0  # best anchors that enter suppression below the threshold, too; the release: 200
    suppression_iou: float = 0.9  # with a better proposal, above which one is suppressed
    min_proposals: int = 50  # after suppression, even below the threshold
    max_proposals: int = 500  # after suppression

    max_words: int = 20  # of a sentence
    beam: int = 1  # sentences that are searched side by side; 1: greedy
    length_penalty: float = 0.0  # the power of the length that a log-probability is divided by
    no_repeat: int = 0  # no sentence repeats so many words in a row; 0: no such rule
    # Minimum Bayes risk: generate the sentence of the beam that is most similar to all of them, each weighted by this
    # power of its probability. `length_penalty` then has no effect. 0: the likeliest.
    mbr_weight: float = 0.0
    word_prior_weight: float = 3.0  # of the word prior in that choice, if the model has one
    # How much of its log-probability without any video a sentence loses in that choice: what is written out of habit
    # needs evidence. For models that were trained with `training.video_dropout`.
    habit_weight: float = 0.0

    mask_floor: float = 0.0  # steps whose event mask is at most this are not encoded; 0: all are
    border_reach: float = 0.0  # move each border to the strongest change within this share of the event's length
    border_weight: float = 0.0  # the power of the changes at both borders that scores are multiplied by
    contrast_weight: float = 0.0  # the power of its contrast to what is around it that a score is multiplied by
    # What changes and contrasts are measured in: the similarity space of the word prior (if there is one), or features.
    similarity_space: Literal["words", "features"] = "words"

    summary_events: int = 10  # events in the default summary, at most, per window of the video
    summary_confidence: float = 0.4  # that every event of a summary must exceed
    summary_overlap: float = 0.2  # of two events in a summary, as a share of their mean length, at most
    summary_worth: Literal["confidence", "score"] = "confidence"  # whose sum over its events the summary has most of
    # How much of a video longer than `model.window` is read; auto: all, or the first window with compat "released".
    read: Literal["auto", "all", "first-window"] = "auto"

    def check(self) -> None:
        """Raise on a value that no inference can have."""
        shares = ("border_reach", "border_weight", "contrast_weight")
        for name in (
            "score_threshold",
            "suppression_iou",
            "mask_floor",
            "summary_confidence",
            *shares,
        ):
            _require(0 <= getattr(self, name) <= 1, f"inference.{name}", getattr(self, name), "must be in [0, 1]")
        sentences = ("length_penalty", "no_repeat", "mbr_weight", "word_prior_weight", "habit_weight")
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
