// The events of the page, read from its list: the list is what a reader without scripts sees, and the only copy.

const SECONDS = Number(document.body.dataset.seconds);
const DIGITS = Number(document.body.dataset.digits); // of a second, in the times of events

const events = [...document.querySelectorAll(".list > li")].map((item, place) => ({
  place,
  item,
  button: item.querySelector("button"),
  guess: item.querySelector(".guess summary"), // null where the sentence is all there is
  sentence: item.querySelector(".sentence").textContent,
  start: Number(item.dataset.start),
  end: Number(item.dataset.end),
  group: Number(item.dataset.group),
  groupName: item.dataset.groupName,
  lane: Number(item.dataset.lane),
  hue: item.dataset.hue,
  reference: item.dataset.reference !== undefined,
  confidence: item.dataset.confidence === undefined ? null : Number(item.dataset.confidence), // given spans have none
  percent: item.dataset.percent === undefined ? null : Number(item.dataset.percent), // rounded once, for all of the page
  sure: item.dataset.sure ?? "", // both confidences in words; empty where the sentence has none
  empty: item.dataset.empty !== undefined, // the sentence that is shown only names the event
  sentenceScore: item.dataset.sentenceScore === undefined ? null : Number(item.dataset.sentenceScore),
  fullSentence: item.dataset.fullSentence ?? null,
  shortened: item.dataset.shortened !== undefined,
  sentenceModel: item.dataset.sentenceModel ?? null,
  mask: Uint8Array.from(atob(item.dataset.mask ?? ""), (letter) => letter.charCodeAt(0)),
  maskStart: Number(item.dataset.maskStart ?? 0),
  maskEnd: Number(item.dataset.maskEnd ?? SECONDS),
  shown: true,
}));

let least = 0; // percent: what is less sure is left out
const isSure = (event) => event.percent === null || event.percent >= least; // without a confidence it always is

const find = (selector) => document.querySelector(selector);

function make(tag, className, ...children) {
  const element = document.createElement(tag);
  element.className = className;
  element.append(...children);
  return element;
}

// 0:07, 12:34, 1:02:03; with `digits` also parts of a second.
function clockText(seconds, digits = 0) {
  const scale = 10 ** digits;
  const parts = Math.floor(seconds * scale + 1e-6);
  const hours = Math.floor(parts / (3600 * scale));
  const minutes = Math.floor(parts / (60 * scale)) % 60;
  const rest = ((parts % (60 * scale)) / scale).toFixed(digits).padStart(digits ? 3 + digits : 2, "0");
  return hours ? `${hours}:${String(minutes).padStart(2, "0")}:${rest}` : `${minutes}:${rest}`;
}

const spanText = (event) => `${clockText(event.start, DIGITS)}–${clockText(event.end, DIGITS)}`;

function scoreText(event) {
  if (event.reference) return "reference";
  if (event.sure) return event.sure;
  return event.percent === null ? "" : `${event.percent}%`;
}

// An area curve of a mask, as a path in a box 100 high, where `place` gives how far right a moment lies.
function maskPath({ mask, maskStart, maskEnd }, place) {
  const at = (step) => place(maskStart + (step / mask.length) * (maskEnd - maskStart)).toFixed(1);
  const points = Array.from(mask, (value, step) => {
    const y = (100 - (value / 255) * 96).toFixed(1);
    return `L${at(step)} ${y}L${at(step + 1)} ${y}`;
  });
  return `M${at(0)} 100${points.join("")}L${at(mask.length)} 100Z`;
}

// The mask and the span of an event between two moments, in a box of 1000 x 100.
function maskPicture(event, from = 0, to = SECONDS) {
  const place = (seconds) => Math.min(1000, Math.max(0, (1000 * (seconds - from)) / (to - from)));
  const space = "http://www.w3.org/2000/svg";
  const picture = document.createElementNS(space, "svg");
  picture.setAttribute("viewBox", "0 0 1000 100");
  picture.setAttribute("preserveAspectRatio", "none");
  const curve = document.createElementNS(space, "path");
  if (event.mask.length) curve.setAttribute("d", maskPath(event, place));
  const span = document.createElementNS(space, "rect");
  span.setAttribute("x", place(event.start));
  span.setAttribute("width", place(event.end) - place(event.start));
  span.setAttribute("height", 100);
  picture.append(span, curve);
  return picture;
}
