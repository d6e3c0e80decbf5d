// The list of sentences: search, groups, and the one entry that the keyboard stands on.

const list = find(".list");
const search = find("#search");
const found = find("#found");
const sureness = find("#sureness"); // there where events differ widely
let group = null; // null: every group

const folded = (text) => text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();

function showMatches() {
  const words = folded(search.value).split(/\s+/).filter(Boolean);
  for (const event of events) {
    const text = folded(event.sentence);
    event.shown = isSure(event) && (group === null || event.group === group) && words.every((word) => text.includes(word));
    event.item.hidden = !event.shown;
    for (const mark of [bars.get(event), event.mark]) mark.hidden = !isSure(event);
    bars.get(event).classList.toggle("faded", !event.shown);
    markWords(event, words);
  }
  const shown = events.filter((event) => event.shown).length;
  found.textContent = shown < events.length || words.length || group !== null ? `${shown} of ${events.length}` : `${events.length}`;
  find(".nothing-found").hidden = shown > 0 || events.length === 0;
  standOnShown();
  card.hidden = true;
}

function startSureness() {
  sureness?.addEventListener("input", () => {
    least = Number(sureness.value);
    const text = least ? `at least ${least}%` : "any";
    sureness.setAttribute("aria-valuetext", text);
    find(".sureness output").textContent = text;
    showMatches();
    changed(); // another event may be the one of this moment
  });
  sureness?.addEventListener("change", packLanes); // only then: on a phone it would move from under the finger
}

// Found words are marked by building text nodes anew: sentences never become markup.
function markWords(event, words) {
  const place = event.item.querySelector(".sentence");
  const spots = words.length && event.shown ? wordSpots(event.sentence, words) : [];
  if (!spots.length) {
    if (place.childElementCount) place.textContent = event.sentence;
    return;
  }
  const pieces = [];
  let at = 0;
  for (const [from, to] of spots) {
    pieces.push(event.sentence.slice(at, from), make("mark", "", event.sentence.slice(from, to)));
    at = to;
  }
  place.replaceChildren(...pieces, event.sentence.slice(at));
}

function wordSpots(sentence, words) {
  const letters = [...sentence].map((letter) => [folded(letter), letter.length]);
  const starts = [];
  let [text, at] = ["", 0];
  for (const [letter, length] of letters) {
    for (let unit = 0; unit < letter.length; unit += 1) starts.push([at, at + length]); // as indexOf counts
    text += letter;
    at += length;
  }
  const hit = new Set();
  for (const word of words) {
    for (let from = text.indexOf(word); from >= 0; from = text.indexOf(word, from + 1)) {
      for (let step = 0; step < word.length; step += 1) hit.add(from + step);
    }
  }
  const spots = [];
  for (const position of [...hit].sort((a, b) => a - b)) {
    const [from, to] = starts[position];
    const last = spots.at(-1);
    if (last && from <= last[1]) last[1] = Math.max(last[1], to);
    else spots.push([from, to]);
  }
  return spots;
}

function standOn(event) {
  for (const other of events) {
    other.button.tabIndex = other === event ? 0 : -1;
    if (other.guess) other.guess.tabIndex = other.button.tabIndex;
  }
}

// The Tab key always finds the list, though what it stood on may be filtered away.
function standOnShown() {
  if (events.some((event) => event.shown && event.button.tabIndex === 0)) return;
  const first = events.find((event) => event.shown);
  if (first) standOn(first);
}

function scrollToItem(event) {
  const box = list.getBoundingClientRect();
  const own = event.item.getBoundingClientRect();
  if (getComputedStyle(list).overflowY !== "auto") return; // on a phone the page scrolls, and belongs to the reader
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const behavior = calm ? "auto" : "smooth";
  if (own.top < box.top || own.bottom > box.bottom) {
    list.scrollTo({ top: list.scrollTop + own.top - box.top - box.height / 3, behavior });
  }
}

function startList(choose) {
  if (!list) return;
  standOn(events[0]);
  for (const event of events) {
    event.button.addEventListener("click", () => choose(event));
    for (const stop of [event.button, event.guess]) {
      stop?.addEventListener("focus", () => { standOn(event); showMask(event); });
    }
    event.item.addEventListener("pointerenter", () => { bars.get(event).classList.add("pointed"); showMask(event); });
    event.item.addEventListener("pointerleave", () => {
      bars.get(event).classList.remove("pointed");
      showMask(current);
    });
  }
  search.addEventListener("input", showMatches);
  startSureness();
  for (const button of document.querySelectorAll(".groups button")) {
    button.addEventListener("click", () => {
      group = button.dataset.group === "" ? null : Number(button.dataset.group);
      for (const other of document.querySelectorAll(".groups button")) {
        other.setAttribute("aria-pressed", String(other === button));
      }
      showMatches();
    });
  }
  showMatches();
}
