// The clock of the page: the video's own or, where there is no video, the moment last chosen.

const video = find("video");
const stage = find(".stage");
const listeners = [];
let moment = 0; // the current time while there is no video
let wanted = null; // where to go as soon as the video knows its length
let loopedEvent = null;

const player = {
  get usable() {
    return !stage.classList.contains("without-video");
  },
  get playing() {
    return player.usable && !video.paused && !video.ended;
  },
  // Where the clock stops: the browser may know another length of the video than the timeline.
  get end() {
    return player.usable && Number.isFinite(video.duration) ? Math.min(video.duration, SECONDS) : SECONDS;
  },
  get time() {
    if (!player.usable) return moment;
    return wanted ?? video.currentTime;
  },
  seek(seconds) {
    moment = Math.min(Math.max(0, seconds), SECONDS);
    if (player.usable) {
      if (video.readyState === 0) wanted = moment;
      else video.currentTime = moment;
    }
    changed();
  },
  play() {
    // A browser may refuse to start sound without a click; the page then simply stays at the moment.
    if (player.usable) video.play().catch(() => {});
  },
  toggle() {
    if (player.playing) video.pause();
    else player.play();
  },
  onChange(listener) {
    listeners.push(listener);
  },
};

function changed() {
  for (const listener of listeners) listener(player.time);
}

function follow() {
  if (loopedEvent && player.time >= loopedEvent.end) player.seek(loopedEvent.start);
  changed();
  if (player.playing) requestAnimationFrame(follow);
}

function withoutVideo() {
  stage.classList.add("without-video");
  find(".missing").hidden = false;
  changed();
}

function showVideo(address) {
  stage.classList.remove("without-video");
  find(".missing").hidden = true;
  wanted = moment;
  video.src = address;
}

// A video inside the page: base64 in a block that never runs, turned into bytes that the browser can seek in.
function embeddedVideo(block) {
  const letters = atob(block.textContent);
  const bytes = new Uint8Array(letters.length);
  for (let at = 0; at < letters.length; at += 1) bytes[at] = letters.charCodeAt(at);
  block.remove();
  return URL.createObjectURL(new Blob([bytes], { type: block.dataset.type }));
}

// The player's own captions button: cues need no file and no request.
function addCaptions() {
  const track = video.addTextTrack("captions", "densevid", "en");
  for (const event of events.filter((one) => !one.reference)) {
    track.addCue(new VTTCue(event.start, event.end, plainCue(event.sentence)));
  }
  track.mode = "hidden";
}

const plainCue = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

function startPlayer() {
  find("#chosen-file")?.addEventListener("change", (change) => {
    const [file] = change.target.files;
    if (file) showVideo(URL.createObjectURL(file));
  });
  video.addEventListener("error", withoutVideo);
  video.addEventListener("loadedmetadata", () => {
    if (wanted !== null) video.currentTime = wanted;
    wanted = null;
    changed();
  });
  video.addEventListener("play", follow);
  video.addEventListener("ended", () => {
    if (!loopedEvent) return; // an event may end where the video does
    player.seek(loopedEvent.start);
    player.play();
  });
  for (const name of ["pause", "seeking", "seeked", "timeupdate"]) video.addEventListener(name, changed);
  const block = find("#embedded-video");
  if (block) video.src = embeddedVideo(block);
  else if (!video.hasAttribute("src") || video.error) withoutVideo();
  addCaptions();
}
