// The page: files come in by drop, choice or paste; their jobs are polled until they are over.

import * as api from "./api.js";
import { makeCard, showCard, showEvents, status } from "./cards.js";
import { drop, keep, known, onOtherTab } from "./memory.js";
import { send, size } from "./uploads.js";
import { showHome, showTimeline } from "./viewer.js";

const POLL = 600;
const entries = []; // newest last
const element = (id) => document.getElementById(id);
let limit = 0;
let arrived = false; // the limits of the server and the jobs of earlier visits are here
let polling = 0; // the timer of the next question
let asking = false; // a question is under way: answers never overtake each other
let unanswered = 0;

const active = (entry) => entry.id && !["done", "failed"].includes(entry.state);
const entryOf = (id) => entries.find((entry) => entry.id === id);
const unshown = () => known().filter((id) => !entryOf(id)); // from an earlier visit or another tab

function long(seconds) {
  const units = [[3600, "hour"], [60, "minute"], [1, "second"]];
  const [length, unit] = units.find(([length]) => seconds >= 2 * length) ?? units[2];
  const amount = seconds / length;
  return `${+amount.toFixed(1)} ${unit}${amount === 1 ? "" : "s"}`;
}

function announce(words) {
  element("announcer").textContent = words;
}

function trouble(words) {
  element("trouble").textContent = words;
  element("trouble").hidden = !words;
}

function change(entry, news) {
  const before = entry.state + entry.stage;
  Object.assign(entry, news);
  showCard(entry);
  tally();
  if (entry.state + entry.stage !== before) announce(`${entry.name}: ${status(entry)}`);
}

function add(entry) {
  entries.push(entry);
  makeCard(entry, removeEntry);
  tally();
}

function tally() {
  const [done, failed] = ["done", "failed"].map((state) => entries.filter((entry) => entry.state === state).length);
  element("videos").hidden = entries.length === 0;
  document.body.classList.toggle("smaller", entries.length > 0);
  element("count").textContent = entries.length > 1 ? `${done} of ${entries.length} done${failed ? `, ${failed} failed` : ""}` : "";
}

async function removeEntry(entry) {
  const button = entry.card.querySelector(".remove");
  button.disabled = true;
  entry.cancel?.();
  try {
    if (entry.id) await api.remove(entry.id);
  } catch (error) {
    if (error.status !== 404) {
      button.disabled = false;
      return trouble(error.message);
    }
  }
  forget(entry);
  announce(`${entry.name}: removed`);
  element("choose").focus({ preventScroll: true });
}

function forget(entry) {
  if (entry.id) drop(entry.id);
  hide(entry);
}

function hide(entry) {
  if (!entries.includes(entry)) return; // another tab was faster
  entries.splice(entries.indexOf(entry), 1);
  entry.card.remove();
  tally();
}

// What is wanted of the videos that are sent now; before the server has answered, whatever it does by itself.
function choices() {
  const boxes = document.querySelectorAll("#options input:enabled");
  return Object.fromEntries([...boxes].map((box) => [box.name, box.checked]));
}

function take(files) {
  const wanted = choices();
  const alone = files.length === 1 && !entries.some(active);
  const taken = [...files].map((file) => ({
    file,
    entry: { name: file.name, size: file.size, state: "new", stage: "", done: 0, alone },
  }));
  for (const { entry } of [...taken].reverse()) add(entry); // the newest stand on top, and of these the first
  for (const { file, entry } of taken) {
    const sent = send(file, wanted, limit, (news) => change(entry, news));
    entry.cancel = sent.cancel;
    sent.result.then((job) => job && enter(entry, job));
  }
}

function enter(entry, job) {
  change(entry, job);
  if (!entries.includes(entry)) return api.remove(job.id).catch(() => {}); // cancelled in the last moment
  keep(job.id, job.created);
  poll();
}

// One question for all jobs that are not over, again and again while there are any.
function poll() {
  clearTimeout(polling);
  polling = setTimeout(question, POLL * Math.min(2 ** unanswered, 16));
}

async function question() {
  if (asking) return; // it is polled again afterwards
  if (arrived && !entries.some(active) && !unshown().length) return;
  asking = true;
  await (arrived ? look() : arrive()).catch(unheard);
  asking = false;
  poll();
}

function unheard(error) {
  unanswered += 1;
  trouble(`${error.message} Trying again; no video that was sent is lost.`);
}

function heard() {
  if (unanswered) trouble("");
  unanswered = 0;
}

async function look() {
  await recall();
  const polled = entries.filter(active);
  const jobs = await api.jobs(polled.map((entry) => entry.id));
  heard();
  const present = polled.filter((entry) => entries.includes(entry));
  present.forEach((entry) => receive(entry, jobs.find((job) => job.id === entry.id)));
}

// Shows the jobs that are known and not shown yet; some are gone by now.
async function recall() {
  const missing = unshown();
  const jobs = await api.jobs(missing);
  const still = known(); // another tab may have deleted some in the meantime
  for (const id of missing.filter((id) => still.includes(id))) {
    const job = jobs.find((found) => found.id === id);
    if (job) bring(job);
    else drop(id);
  }
}

function bring(job) {
  if (entryOf(job.id)) return entryOf(job.id);
  const entry = { ...job };
  add(entry);
  if (entry.state === "done") preview(entry);
  return entry;
}

// A card that is done shows its timeline in small, where its progress was.
async function preview(entry) {
  const events = await api.events(entry.links.json).catch(() => null);
  if (events) showEvents(entry, events);
}

function receive(entry, job) {
  if (!job) return change(entry, { state: "failed", error: "It was deleted on the server." });
  change(entry, job);
  if (entry.state === "done") preview(entry);
  const watching = entry.alone && entry.state === "done" && location.hash.length < 3 && !document.hidden;
  if (watching) location.hash = `#/jobs/${entry.id}`;
}

async function route() {
  const id = location.hash.match(/^#\/jobs\/([0-9a-f]{32})$/)?.[1];
  if (!id) return showHome();
  const entry = entryOf(id) ?? (await ask(id));
  if (entry?.state === "done") return showTimeline(entry);
  showHome();
  if (!entry) trouble("This video is no longer here.");
  poll();
}

// A job that an address names and this browser does not know yet.
async function ask(id) {
  const [job] = await api.jobs([id]);
  if (!job) return null;
  keep(id, job.created);
  return bring(job);
}

function listenForFiles() {
  const choose = element("choose");
  choose.addEventListener("change", () => {
    take([...choose.files]);
    choose.value = "";
  });
  const carries = (event) => event.dataTransfer?.types.includes("Files");
  const dragging = (on) => {
    element("veil").hidden = !on;
    document.body.classList.toggle("dragging", on);
  };
  addEventListener("dragover", (event) => {
    if (!carries(event)) return;
    event.preventDefault();
    dragging(true);
  });
  addEventListener("dragleave", (event) => event.relatedTarget === null && dragging(false));
  addEventListener("drop", (event) => {
    if (!carries(event)) return;
    event.preventDefault();
    dragging(false);
    take([...event.dataTransfer.files]);
  });
  addEventListener("paste", (event) => event.clipboardData?.files.length && take([...event.clipboardData.files]));
}

// What the page needs to know first; without an answer `poll` tries again.
async function arrive() {
  const limits = await api.limits();
  limit = limits.upload_bytes;
  element("limits").textContent =
    `Up to ${size(limit)} and ${long(limits.seconds)} each. `
    + `They stay on this server and are deleted after ${long(limits.keep_seconds)}.`;
  for (const box of document.querySelectorAll("#options input:disabled")) {
    box.checked = limits[box.name];
    box.disabled = false;
  }
  await recall();
  heard();
  await route();
  arrived = true;
}

// What another tab sent is shown here too, and what it deleted is not any more.
function followOtherTabs() {
  onOtherTab(() => {
    const ids = known();
    entries.filter((entry) => entry.id && !ids.includes(entry.id)).forEach(hide);
    question();
  });
}

function begin() {
  listenForFiles();
  followOtherTabs();
  addEventListener("hashchange", () => route().catch((error) => trouble(error.message)));
  question();
}

begin();
