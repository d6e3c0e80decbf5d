// The list of videos: one card each, changed in place so that the focus and a screen reader keep their place.

import { size } from "./uploads.js";

const STAGES = [
  ["upload", "Uploading", 2, 255],
  ["check", "Checking the file", 0.5, 215],
  ["decode", "Decoding frames", 2, 160],
  ["features", "Computing features", 5, 50],
  ["events", "Finding events", 1.2, 20],
  ["sentences", "Writing sentences", 2, 320],
];
const HUES = [255, 160, 50, 320, 215, 105, 20, 290]; // those of the timeline page, in its order
const template = document.getElementById("card");
const list = document.getElementById("list");

// How much of each stage is done; they overlap, since pictures flow through them.
function parts(entry) {
  const upload = entry.id ? 1 : entry.done || 0;
  return STAGES.map(([name]) => (name === "upload" ? upload : entry.progress?.[name] ?? 0));
}

function percent(entry) {
  const total = STAGES.reduce((sum, [, , weight]) => sum + weight, 0);
  return Math.round((100 * parts(entry).reduce((sum, part, index) => sum + part * STAGES[index][2], 0)) / total);
}

export function status(entry) {
  const share = (done) => (done > 0 ? ` · ${Math.round(100 * done)} %` : "");
  if (entry.state === "held") return "Waiting to upload: the queue is full";
  if (entry.state === "uploading") return entry.done >= 1 ? "Sent" : `Uploading${share(entry.done)}`;
  if (entry.state === "queued") return entry.position > 1 ? `Waiting, number ${entry.position} in the queue` : "Waiting, next in the queue";
  if (entry.state === "running") {
    const [, doing] = STAGES.find(([name]) => name === entry.stage) ?? ["", "Working"];
    return `${doing}${share(entry.done)}`;
  }
  if (entry.state === "failed") return capital(entry.error || "It failed.");
  if (entry.state === "done") return entry.found ?? "Done";
  return "Waiting to be sent";
}

const capital = (words) => words[0].toUpperCase() + words.slice(1);

export const time = (seconds) => {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole} s`;
  const pad = (number) => String(number).padStart(2, "0");
  const minutes = Math.floor(whole / 60);
  const rest = pad(whole % 60);
  return minutes < 60 ? `${minutes}:${rest}` : `${Math.floor(minutes / 60)}:${pad(minutes % 60)}:${rest}`;
};

function facts(entry) {
  const { width, height, seconds } = entry.video ?? {};
  const chosen = [entry.all_words && "every guess", entry.fast && "fast"];
  return [seconds && time(seconds), width && `${width} × ${height}`, size(entry.size), ...chosen].filter(Boolean).join(" · ");
}

export function makeCard(entry, onRemove) {
  const card = template.content.firstElementChild.cloneNode(true);
  card.querySelector("bdi").textContent = entry.name;
  const stages = card.querySelector(".stages");
  for (const [, , weight, hue] of STAGES) {
    const segment = document.createElement("i");
    segment.style.setProperty("--share", weight);
    segment.style.setProperty("--h", hue);
    stages.append(segment);
  }
  stages.setAttribute("aria-label", `Progress of ${entry.name}`);
  askTwice(card.querySelector(".remove"), entry, onRemove);
  list.prepend(card);
  entry.card = card;
  showCard(entry);
}

// A finished timeline is deleted at the second click; anything else can simply be sent again.
function askTwice(button, entry, onRemove) {
  const calm = () => {
    button.classList.remove("sure");
    nameRemove(button, entry);
  };
  button.addEventListener("click", (click) => {
    if (click.detail > 1) return; // a double click was meant for what lay here before
    if (entry.state !== "done" || button.classList.contains("sure")) return onRemove(entry);
    button.classList.add("sure");
    button.textContent = "Really delete?";
    button.setAttribute("aria-label", `Really delete ${entry.name}?`);
  });
  button.addEventListener("blur", calm);
  button.addEventListener("mouseleave", calm);
}

function nameRemove(button, entry) {
  if (button.classList.contains("sure")) return;
  const over = entry.state === "done" || entry.state === "failed";
  button.textContent = over ? (entry.state === "done" ? "Delete" : "Dismiss") : "Cancel";
  button.setAttribute("aria-label", `${button.textContent} ${entry.name}`);
}

// The timeline in small: a bar per event, of the colours that the timeline itself gives them.
export function showEvents(entry, events) {
  const small = entry.card.querySelector(".small-timeline");
  const end = Math.max(entry.video.seconds, ...events.map((event) => event.timestamp[1]));
  small.replaceChildren(...events.slice(0, 200).map(({ timestamp: [from, to] }, index) => {
    const bar = document.createElement("i");
    bar.style.setProperty("--from", from / end);
    bar.style.setProperty("--to", to / end);
    bar.style.setProperty("--h", HUES[index % HUES.length]);
    return bar;
  }));
  const count = `${events.length} event${events.length === 1 ? "" : "s"}`;
  entry.found = events.length ? `${count} · ${best(events)}` : "No event that the model is confident about";
  showCard(entry);
}

// The surest event that has a sentence, with both confidences where there are two; without any sentence, a number.
function best(events) {
  const rank = (event) => (event.sentence.trim() ? 1 : 0) + event.proposal_score / 2;
  const event = events.reduce((one, other) => (rank(other) > rank(one) ? other : one));
  const share = (part) => `${Math.round(100 * part)}%`;
  const inTime = [...events].sort((a, b) => a.timestamp[0] - b.timestamp[0] || b.timestamp[1] - a.timestamp[1]);
  if (!event.sentence.trim()) return `scene ${1 + inTime.indexOf(event)}`;
  if (typeof event.sentence_score !== "number") return event.sentence;
  return `${event.sentence} (event ${share(event.proposal_score)}, sentence ${share(event.sentence_score)})`;
}

export function showCard(entry) {
  const { card } = entry;
  const running = entry.state === "running" || entry.state === "uploading";
  card.dataset.state = entry.state;
  card.querySelector(".card-facts").textContent = facts(entry);
  card.querySelector(".card-status").textContent = status(entry);
  const stages = card.querySelector(".stages");
  stages.hidden = entry.state === "failed" || entry.state === "done";
  const small = card.querySelector(".small-timeline");
  small.hidden = entry.state !== "done"; // there before its events: nothing jumps
  stages.setAttribute("aria-valuenow", percent(entry));
  stages.setAttribute("aria-valuetext", status(entry));
  const done = parts(entry);
  const now = STAGES.findIndex(([name]) => name === (entry.id ? entry.stage : "upload"));
  [...stages.children].forEach((segment, index) => {
    segment.style.setProperty("--done", done[index]);
    segment.classList.toggle("now", running && index === now);
  });
  const open = card.querySelector(".open");
  open.hidden = entry.state !== "done";
  if (entry.state === "done") {
    for (const link of [open, card.querySelector(".card-name a"), small]) link.href = `#/jobs/${entry.id}`;
  }
  open.setAttribute("aria-label", `Open the timeline of ${entry.name}`);
  nameRemove(card.querySelector(".remove"), entry);
}
