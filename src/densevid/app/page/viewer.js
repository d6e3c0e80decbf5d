// One timeline over the whole window: the page that `densevid caption` writes, in a frame, under a bar with its name.

const home = document.getElementById("home");
const viewer = document.getElementById("viewer");
let frame = null;
const name = document.getElementById("viewer-name");
const downloads = document.getElementById("downloads");

export function showTimeline(entry) {
  home.hidden = true;
  viewer.hidden = false;
  name.textContent = entry.name;
  document.title = `${entry.name} · densevid`;
  const stem = entry.name.replace(/\.[^.]+$/, "");
  downloads.replaceChildren(...[["json", "JSON"], ["vtt", "Subtitles"]].map(([format, words]) => {
    const link = document.createElement("a");
    link.href = entry.links[format];
    link.download = `${stem}.${format}`;
    link.textContent = words;
    link.setAttribute("aria-label", `Download ${words}`);
    return link;
  }));
  if (frame?.getAttribute("src") === entry.links.html) return;
  frame?.remove();
  frame = makeFrame(entry.links.html);
  viewer.append(frame);
}

// A frame for each visit: another address in the same one would be one more step for the browser's Back.
function makeFrame(address) {
  const made = document.createElement("iframe");
  made.id = "timeline";
  made.title = "Timeline";
  made.allow = "fullscreen";
  made.src = address;
  made.addEventListener("load", () => made.contentWindow?.focus()); // its keys work at once
  return made;
}

export function showHome() {
  if (!viewer.hidden) document.getElementById("choose").focus({ preventScroll: true });
  viewer.hidden = true;
  home.hidden = false;
  frame?.remove();
  frame = null;
  document.title = "densevid";
}
