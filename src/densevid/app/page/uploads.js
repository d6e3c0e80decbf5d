// Files on their way to the server: a few at a time, and again later where the queue is full.

import { Failure, upload } from "./api.js";

const AT_A_TIME = 3; // a browser keeps six connections to one server; the page needs some itself
const waiting = [];
let sending = 0;

// `choices` as `upload` takes them. Calls `onChange({state, done, error})` while it goes on; gives the job, or null if it failed or was cancelled.
export function send(file, choices, limit, onChange) {
  const control = new AbortController();
  const result = new Promise((resolve) => {
    const problem = unfit(file, limit);
    if (problem) {
      onChange({ state: "failed", error: problem });
      return resolve(null);
    }
    waiting.push({ file, choices, onChange, resolve, signal: control.signal });
    start();
  });
  return { result, cancel: () => control.abort() };
}

function unfit(file, limit) {
  if (file.size === 0) return "The file is empty.";
  if (limit && file.size > limit) return `The file is larger than the limit of ${size(limit)}.`;
  return "";
}

export function size(bytes) {
  const unit = ["GB", "MB", "kB"].findIndex((_, index) => bytes >= 1024 ** (3 - index));
  return unit < 0 ? `${bytes} bytes` : `${+(bytes / 1024 ** (3 - unit)).toFixed(1)} ${["GB", "MB", "kB"][unit]}`;
}

function start() {
  while (sending < AT_A_TIME && waiting.length) {
    sending += 1;
    deliver(waiting.shift()).finally(() => {
      sending -= 1;
      start();
    });
  }
}

async function deliver({ file, choices, onChange, resolve, signal }) {
  while (!signal.aborted) {
    onChange({ state: "uploading", done: 0 });
    try {
      return resolve(await upload(file, choices, (done) => onChange({ state: "uploading", done }), signal));
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      if (error.status === -1) break;
      if (error.status !== 503) {
        onChange({ state: "failed", error: error.message });
        break;
      }
      onChange({ state: "held", done: 0 });
      await pause(Math.min(error.retryAfter || 5, 30), signal);
    }
  }
  resolve(null);
}

// A cancel ends it at once: others wait for the place.
function pause(seconds, signal) {
  return new Promise((go) => {
    setTimeout(go, 1000 * seconds);
    signal.addEventListener("abort", go);
  });
}
