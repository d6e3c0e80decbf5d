// The server, as the page sees it: every function gives data or throws a Failure with one line for people.

export class Failure extends Error {
  constructor(message, status = 0, retryAfter = 0) {
    super(message);
    this.status = status;
    this.retryAfter = retryAfter;
  }
}

const MOST_IDS = 100; // that the server answers for at a time
const SILENT = "The server does not answer.";

async function ask(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, { cache: "no-store", ...options });
  } catch {
    throw new Failure(SILENT);
  }
  if (answer.status === 204) return null;
  const content = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Failure(content.error || `The server answered ${answer.status}.`, answer.status);
  return content;
}

export const limits = () => ask("/limits");
export const remove = (id) => ask(`/jobs/${id}`, { method: "DELETE" });

export async function jobs(ids) {
  const found = [];
  for (let first = 0; first < ids.length; first += MOST_IDS) {
    const query = ids.slice(first, first + MOST_IDS).map((id) => `id=${id}`).join("&");
    found.push(...(await ask(`/jobs?${query}`)).jobs);
  }
  return found;
}

// The events of a finished job: {timestamp: [start, end], sentence, proposal_score, ...} each; see /api.
export async function events(address) {
  return Object.values((await ask(address)).results)[0];
}

// fetch has no progress of an upload, so an upload is an XMLHttpRequest.
// `choices`: {all_words, fast}, or nothing where the server's own are wanted.
export function upload(file, choices, onProgress, signal) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    const wanted = Object.entries(choices).map(([name, on]) => `&${name}=${on ? 1 : 0}`).join("");
    request.open("POST", `/jobs?name=${encodeURIComponent(file.name)}${wanted}`);
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.responseType = "json";
    request.upload.onprogress = (event) => event.lengthComputable && onProgress(event.loaded / event.total);
    request.onload = () => {
      if (request.status === 201) return resolve(request.response);
      const wait = Number(request.getResponseHeader("Retry-After")) || 0;
      reject(new Failure(request.response?.error || `The server answered ${request.status}.`, request.status, wait));
    };
    const broken = "The upload broke off. Is the server running, and can the file be read?";
    request.onerror = () => reject(new Failure(broken));
    request.onabort = () => reject(new Failure("cancelled", -1));
    signal.addEventListener("abort", () => request.abort());
    request.send(file);
  });
}
