// The events as files, and links to a moment: made here, from the list, so that nothing is fetched.

function save(name, type, text) {
  const link = make("a", "");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

const cueTime = (seconds) => clockText(seconds + 3600 * 100, 3).slice(1); // always two digits of hours

function webvtt() {
  const cues = events.map((event) => {
    const text = plainCue(event.sentence).replace(/\s+/g, " ").trim();
    return `${cueTime(event.start)} --> ${cueTime(event.end)}\n${text}\n`;
  });
  return `WEBVTT\n\n${cues.join("\n")}`;
}

function submission() {
  const rows = events.map((event) => ({
    sentence: event.sentence,
    timestamp: [event.start, event.end],
    proposal_score: event.confidence ?? (event.reference ? 1 : undefined),
    group: event.groupName,
  }));
  const external = { used: false, details: "" };
  const results = { [document.body.dataset.title]: rows };
  return `${JSON.stringify({ version: "VERSION 1.0", results, external_data: external }, null, 1)}\n`;
}

const fileName = (ending) => `${document.body.dataset.title.replace(/[^\p{L}\p{N}._ -]+/gu, "_")}.${ending}`;

function say(text) {
  const toast = find(".toast");
  toast.textContent = text;
  clearTimeout(say.timer);
  say.timer = setTimeout(() => { toast.textContent = ""; }, 2500);
}

async function copyLink(event) {
  const seconds = Number((event?.start ?? player.time).toFixed(2));
  const address = new URL(location.href);
  address.hash = `t=${seconds}`;
  history.replaceState(null, "", address);
  try {
    await navigator.clipboard.writeText(address.href);
    say(`Link to ${clockText(seconds)} copied`);
  } catch {
    say(`The address of this page now points to ${clockText(seconds)}`);
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
  find("#save-json")?.addEventListener("click", () => save(fileName("json"), "application/json", submission()));
}
