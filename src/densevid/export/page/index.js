// Search over all videos: one stays if its name or a sentence of it has the words; of its sentences those that do.

const search = document.querySelector("#search");
const folded = (text) => text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();

const videos = [...document.querySelectorAll(".video")].map((element) => ({
  element,
  name: folded(element.querySelector("h2").textContent),
  more: element.querySelector("details"),
  sentences: [...element.querySelectorAll(".sentences li")].map((item) => ({
    item,
    text: folded(item.querySelector(".sentence").textContent),
  })),
}));

function showMatches() {
  const words = folded(search.value).split(/\s+/).filter(Boolean);
  const fits = (text) => words.every((word) => text.includes(word));
  for (const { element, name, more, sentences } of videos) {
    const named = fits(name);
    const found = sentences.filter(({ text }) => fits(text));
    for (const one of sentences) one.item.hidden = !named && !found.includes(one);
    element.hidden = !named && !found.length;
    if (more) more.open = words.length > 0 && found.some(({ item }) => more.contains(item));
  }
  const shown = videos.filter(({ element }) => !element.hidden).length;
  document.querySelector("#found").textContent = words.length ? `${shown} of ${videos.length}` : "";
  document.querySelector(".nothing-found").hidden = shown > 0 || videos.length === 0;
}

search.addEventListener("input", showMatches);
document.addEventListener("keydown", (press) => {
  if (press.ctrlKey || press.metaKey || press.altKey) return;
  if (press.key === "/" && press.target !== search) {
    press.preventDefault();
    search.focus();
    search.select();
  } else if (press.key === "Escape" && search.value) {
    search.value = "";
    showMatches();
  }
});
document.querySelector(".search").hidden = videos.length === 0;
document.documentElement.classList.add("ready");
