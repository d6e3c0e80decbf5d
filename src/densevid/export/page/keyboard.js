// Keys work anywhere on the page, except where the element in focus has a use of its own for them.

function startKeyboard({ move, toggleLoop, copyCurrent }) {
  const keys = {
    " ": () => player.toggle(),
    ArrowDown: () => move(1),
    ArrowUp: () => move(-1),
    ArrowRight: () => goTo(player.time + 5),
    ArrowLeft: () => goTo(player.time - 5),
    "/": () => { search.focus(); search.select(); },
    l: toggleLoop,
    c: copyCurrent,
    "+": () => zoomTo(zoom * 2),
    "=": () => zoomTo(zoom * 2),
    "-": () => zoomTo(zoom / 2),
    0: () => zoomTo(1),
  };
  document.addEventListener("keydown", (press) => {
    if (press.ctrlKey || press.metaKey || press.altKey || enlarged.open) return;
    if (press.key === "Escape") leaveSearch(press);
    else if (press.target === search) typeInSearch(press, move);
    else if (keys[keyName(press)] && !usedByItself(press)) {
      press.preventDefault();
      keys[keyName(press)]();
    }
  });
}

// L is l: with Shift or Caps Lock a letter means the same.
const keyName = ({ key }) => (key.length === 1 ? key.toLowerCase() : key);

function usedByItself(press) {
  if (press.target === video) return press.key === " " || press.key.startsWith("Arrow"); // the player's own buttons, sliders
  if (press.target === sureness) return press.key.startsWith("Arrow");
  if (press.target.matches("input, textarea, select, [contenteditable]")) return true;
  if (events.some((event) => event.button === press.target)) return false; // Enter chooses an event, space is the player's
  return press.key === " " && press.target.matches("button, summary, a");
}

function leaveSearch(press) {
  card.hidden = true;
  if (search.value) {
    search.value = "";
    showMatches();
    press.preventDefault();
  }
  if (press.target === search) search.blur();
}

function typeInSearch(press, move) {
  if (press.key !== "Enter" && press.key !== "ArrowDown") return;
  press.preventDefault();
  move(0);
}
