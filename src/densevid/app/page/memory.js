// The ids of the jobs that this browser knows: the server lists them to nobody. All tabs keep them together, so what
// is kept is read again before every change, and only what is removed goes.

const PLACE = "densevid.jobs";
let unkept = []; // what a browser that keeps nothing knows until it is closed

export function known() {
  try {
    const ids = JSON.parse(localStorage.getItem(PLACE) ?? "[]");
    return ids.filter((id) => /^[0-9a-f]{32}$/.test(id));
  } catch {
    return unkept;
  }
}

function write(ids) {
  unkept = ids;
  try {
    localStorage.setItem(PLACE, JSON.stringify(ids));
  } catch { /* everything is still shown until it is closed */ }
}

export function keep(id) {
  if (!known().includes(id)) write([...known(), id]);
}

export function drop(id) {
  if (known().includes(id)) write(known().filter((other) => other !== id));
}

// Another tab has kept or dropped some.
export function onOtherTab(listener) {
  addEventListener("storage", (event) => event.key === PLACE && listener());
}
