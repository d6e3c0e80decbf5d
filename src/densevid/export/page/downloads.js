// The events as files, and links to a moment: made here, from the list, so that nothing is fetched.

const VIDEO_ID = document.body.dataset.videoId;

// The predicted events, in the order of the files that the command writes; references are not saved.
const predictions = () => events
  .filter((event) => !event.reference)
  .sort((a, b) => a.start - b.start || b.end - a.end);

function save(name, type, text) {
  const link = make("a", "");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

const cueTime = (seconds) => clockText(seconds + 3600 * 100, 3).slice(1); // always two digits of hours

const onOneLine = (text) => text.replace(/\s+/g, " ").trim();

function webvtt() {
  const cues = predictions().map(
    (event) => `${cueTime(event.start)} --> ${cueTime(event.end)}\n${onOneLine(plainCue(event.sentence))}\n`,
  );
  return `WEBVTT\n\n${cues.join("\n")}`;
}

// SRT has no way to escape its tags: what looks like one is written with letters alike, as in the command's file.
function srt() {
  const alike = { "<": "‹", ">": "›", "{": "(", "}": ")" };
  const time = (seconds) => cueTime(seconds).replace(".", ",");
  return predictions().map(({ start, end, sentence }, place) => {
    const text = onOneLine(sentence.replace(/[<>{}]/g, (mark) => alike[mark]));
    return `${place + 1}\n${time(start)} --> ${time(end)}\n${text}\n`;
  }).join("\n");
}

function submission() {
  const scored = predictions().some((event) => event.sentenceScore !== null);
  const rows = predictions().map((event) => ({
    sentence: event.empty ? "" : event.sentence,
    timestamp: [event.start, event.end],
    proposal_score: event.confidence ?? 1, // given spans
    ...sentenceFields(event, scored),
  }));
  const external = JSON.parse(document.body.dataset.external);
  const content = { version: "VERSION 1.0", results: { [VIDEO_ID]: rows }, external_data: external };
  return `${JSON.stringify(content, null, 1)}\n`;
}

// As in the command's file: all four where sentences have a confidence, else those that are known.
function sentenceFields(event, scored) {
  const known = Object.entries({
    sentence_score: event.sentenceScore,
    full_sentence: event.fullSentence ?? (scored ? (event.empty ? "" : event.sentence) : null),
    shortened: event.shortened,
    sentence_model: event.sentenceModel,
  });
  return Object.fromEntries(known.filter(([, value]) => scored || (value !== null && value !== false)));
}

const fileName = (ending) => `${VIDEO_ID.replace(/[^\p{L}\p{N}._ -]+/gu, "_")}.${ending}`;

function notify(text) {
  const toast = find(".toast");
  toast.textContent = text;
  clearTimeout(notify.timer);
  notify.timer = setTimeout(() => { toast.textContent = ""; }, 2500);
}

async function copyLink(event) {
  const seconds = Number((event?.start ?? player.time).toFixed(2));
  const address = new URL(location.href);
  address.hash = `t=${seconds}`;
  history.replaceState(null, "", address);
  try {
    await navigator.clipboard.writeText(address.href);
    notify(`Link to ${clockText(seconds)} copied`);
  } catch {
    notify(`The address of this page now points to ${clockText(seconds)}`);
  }
}

async function copyChapters() {
  const { chapters } = find("#copy-chapters").dataset;
  try {
    await navigator.clipboard.writeText(chapters);
    notify("Chapters copied, for the description of the video");
  } catch {
    save(fileName("chapters.txt"), "text/plain", chapters);
  }
}

// #t=12.5, #t=12.5,20 and #t=1:02 as players write them; null where the address names no moment.
function momentOfAddress() {
  const named = /(?:^#|&)t=([\d:.]+)/.exec(location.hash);
  if (!named) return null;
  const seconds = named[1].split(":").reduce((sum, part) => 60 * sum + Number(part), 0);
  return Number.isFinite(seconds) ? seconds : null;
}

function startDownloads() {
  find("#save-vtt")?.addEventListener("click", () => save(fileName("vtt"), "text/vtt", webvtt()));
  find("#save-srt")?.addEventListener("click", () => save(fileName("srt"), "application/x-subrip", srt()));
  find("#copy-chapters")?.addEventListener("click", copyChapters);
  find("#save-json")?.addEventListener("click", () => save(fileName("json"), "application/json", submission()));
}
