// The ids of this browser's jobs, which the server lists to nobody. All tabs share them. Each id has an entry of its own
// in localStorage: with one list for all, two tabs that changed it at the same moment would overwrite each other.

const PREFIX = "densevid.job.";
const OLD_LIST = "densevid.jobs"; // version 0.1 kept one list
const isId = (id) => /^[0-9a-f]{32}$/.test(id);
const unkept = new Map(); // stands in for localStorage where the browser does not allow it

function stored() {
  const found = new Map();
  for (let index = 0; index < localStorage.length; index += 1) {
    const key = localStorage.key(index);
    if (key?.startsWith(PREFIX)) found.set(key.slice(PREFIX.length), Number(localStorage.getItem(key)));
  }
  return found;
}

function takeOverOldList() {
  const list = localStorage.getItem(OLD_LIST);
  if (list === null) return;
  JSON.parse(list).filter(isId).forEach((id, place) => localStorage.setItem(PREFIX + id, place));
  localStorage.removeItem(OLD_LIST);
}

// The ids, oldest job first.
export function known() {
  const ids = new Map(unkept);
  try {
    for (const [id, created] of stored()) ids.set(id, created);
  } catch { /* not allowed: only those of this page are known */ }
  return [...ids].filter(([id]) => isId(id)).sort(([, one], [, other]) => one - other).map(([id]) => id);
}

// `created`: when the server took the job, in seconds since 1970.
export function keep(id, created) {
  try {
    localStorage.setItem(PREFIX + id, created);
  } catch {
    unkept.set(id, created);
  }
}

export function drop(id) {
  unkept.delete(id);
  try {
    localStorage.removeItem(PREFIX + id);
  } catch { /* it was never stored */ }
}

// Calls `listener` when another tab keeps or drops an id; the key is null when the browser's storage is cleared.
export function onOtherTab(listener) {
  addEventListener("storage", ({ key }) => (key === null || key.startsWith(PREFIX)) && listener());
}

try {
  takeOverOldList();
} catch { /* not allowed, or not a list */ }
