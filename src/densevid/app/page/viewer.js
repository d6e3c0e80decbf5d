// One timeline over the whole window: the page that `densevid caption` writes, in a frame, under a bar with its name.

const home = document.getElementById("home");
const viewer = document.getElementById("viewer");
const frame = document.getElementById("timeline");
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
  if (frame.getAttribute("src") !== entry.links.html) frame.src = entry.links.html;
  frame.onload = () => frame.contentWindow?.focus(); // its keys work at once
}

export function showHome() {
  if (!viewer.hidden) document.getElementById("choose").focus({ preventScroll: true });
  viewer.hidden = true;
  home.hidden = false;
  frame.removeAttribute("src");
  document.title = "densevid";
}
