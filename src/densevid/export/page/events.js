// The events of the page, read from its list: the list is what a reader without scripts sees, and the only copy.

const SECONDS = Number(document.body.dataset.seconds);
const MASK_SECONDS = Number(document.body.dataset.maskSeconds);

const DIGITS = Number(document.body.dataset.digits); // of a second, in the times of events

const events = [...document.querySelectorAll(".list > li")].map((item, place) => ({
  place,
  item,
  button: item.querySelector("button"),
  sentence: item.querySelector(".sentence").textContent,
  start: Number(item.dataset.start),
  end: Number(item.dataset.end),
  group: Number(item.dataset.group),
  groupName: item.dataset.groupName,
  lane: Number(item.dataset.lane),
  hue: item.dataset.hue,
  confidence: item.dataset.confidence === undefined ? null : Number(item.dataset.confidence),
  mask: Uint8Array.from(atob(item.dataset.mask ?? ""), (letter) => letter.charCodeAt(0)),
  shown: true,
}));

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
const scoreText = (event) => (event.confidence === null ? "reference" : `${Math.round(100 * event.confidence)}%`);

// An area curve of a mask over the whole video, as a path in a box of 1000 x 100.
function maskPath(mask) {
  const width = (1000 * Math.min(1, MASK_SECONDS / SECONDS)) / mask.length;
  const points = Array.from(mask, (value, step) => {
    const y = (100 - (value / 255) * 96).toFixed(1);
    return `L${(step * width).toFixed(1)} ${y}L${((step + 1) * width).toFixed(1)} ${y}`;
  });
  return `M0 100${points.join("")}L${(mask.length * width).toFixed(1)} 100Z`;
}

function maskPicture(event) {
  const space = "http://www.w3.org/2000/svg";
  const picture = document.createElementNS(space, "svg");
  picture.setAttribute("viewBox", "0 0 1000 100");
  picture.setAttribute("preserveAspectRatio", "none");
  const curve = document.createElementNS(space, "path");
  if (event.mask.length) curve.setAttribute("d", maskPath(event.mask));
  const span = document.createElementNS(space, "rect");
  span.setAttribute("x", (1000 * event.start) / SECONDS);
  span.setAttribute("width", (1000 * (event.end - event.start)) / SECONDS);
  span.setAttribute("height", 100);
  picture.append(span, curve);
  return picture;
}
