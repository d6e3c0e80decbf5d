// Time moves, the page follows: which event is current, its sentence, where the playhead stands.

let chosen = null; // the event last clicked; stays current while its time lasts, even under others
let current; // undefined until the first look at the clock, null where nothing is described
let shownSeconds = 0; // where the playhead stands
const now = find(".now");
const LAST_FRAME = 0.1; // seconds, at most about: a video stops on it, and what lasts till then stays

// Of several events: predictions before references, the surest, the shortest; null where there is none.
function surest(some) {
  const sureness = (event) => event.confidence ?? -1;
  const length = (event) => event.end - event.start;
  const rank = (a, b) => a.reference - b.reference || sureness(b) - sureness(a) || length(a) - length(b);
  return some.sort(rank)[0] ?? null;
}

function eventAt(seconds) {
  const reachesTheEnd = (event) => event.end >= player.end - LAST_FRAME;
  const here = events.filter(
    (event) => isSure(event) && event.start <= seconds + 1e-3 && (seconds < event.end || reachesTheEnd(event)),
  );
  return here.includes(chosen) ? chosen : surest(here);
}

function goTo(seconds) {
  player.seek(seconds);
  keepInView(player.time);
}

function goToEvent(event) {
  chosen = event;
  if (loopedEvent) loopedEvent = event;
  goTo(event.start);
}

function choose(event) {
  goToEvent(event);
  player.play();
}

// The next event in the list as it is filtered; 0 goes to the first.
function move(by) {
  const shown = events.filter((event) => event.shown);
  if (!shown.length) return;
  const from = shown.indexOf(current);
  const time = player.time;
  const nearby = by > 0
    ? shown.findIndex((event) => event.start > time)
    : shown.findLastIndex((event) => event.end <= time);
  const target = by === 0 ? 0 : from >= 0 ? from + by : nearby;
  const event = shown[Math.min(Math.max(target, 0), shown.length - 1)];
  const inList = list.contains(document.activeElement);
  goToEvent(event);
  if (inList || by === 0) event.button.focus({ preventScroll: true });
  scrollToItem(event);
}

function highlight(event) {
  if (event === current) return;
  if (current) {
    current.item.removeAttribute("aria-current");
    bars.get(current).classList.remove("current");
  }
  current = event;
  if (event) {
    event.item.setAttribute("aria-current", "true");
    bars.get(event).classList.add("current");
    if (event.shown && !list.contains(document.activeElement)) standOn(event);
    scrollToItem(event);
  }
  showNow(event);
  showMask(event);
}

function showNow(event) {
  now.dataset.hue = event ? event.hue : "-1";
  now.classList.toggle("idle", !event);
  find(".now-sentence").textContent = event ? event.sentence : "Nothing is described at this moment.";
}

function nowText(event, seconds) {
  if (event) return [spanText(event), scoreText(event)].filter(Boolean).join(" · ");
  const next = events.find((other) => isSure(other) && other.start > seconds);
  return next ? `Next event at ${clockText(next.start, DIGITS)}` : "";
}

function show(seconds) {
  const followed = isInView(shownSeconds); // a reader who has scrolled away is left there
  shownSeconds = seconds;
  playhead.style.left = percent(Math.min(seconds, SECONDS));
  find("#elapsed").textContent = clockText(seconds);
  find(".now-sentence").setAttribute("aria-live", player.playing ? "off" : "polite");
  highlight(eventAt(seconds));
  const about = nowText(current, seconds); // what is next may change while nothing is described
  if (find(".now-time").textContent !== about) find(".now-time").textContent = about;
  if (player.playing && followed) keepInView(seconds);
}

function toggleLoop() {
  loopedEvent = loopedEvent ? null : current;
  find("#loop").setAttribute("aria-pressed", String(loopedEvent !== null));
}

const copyCurrent = () => copyLink(current);

// Links to an event name its start, in hundredths of a second: that event is meant, though a surer one may go on.
function goToAddress() {
  const seconds = momentOfAddress();
  if (seconds === null) return;
  const meant = surest(events.filter((event) => Math.abs(event.start - seconds) < 0.006));
  if (meant) goToEvent(meant);
  else goTo(seconds);
}

// The columns end with the window, however many lines the title takes.
function measureHead() {
  const head = find("header");
  const gap = 15;
  new ResizeObserver(() => {
    document.body.style.setProperty("--head", `${head.getBoundingClientRect().height + gap}px`);
  }).observe(head);
}

function start() {
  const any = events.length > 0;
  for (const part of document.querySelectorAll(".now, .search, .sureness")) part.hidden = !any;
  find(".timeline").hidden = false;
  measureHead();
  document.documentElement.classList.toggle("framed", parent !== window); // in the web app, where no command helps
  startLanes(choose, () => current);
  startOverview();
  player.onChange(show);
  if (any) {
    startList(choose);
    startDownloads();
    find("#previous").addEventListener("click", () => move(-1));
    find("#next").addEventListener("click", () => move(1));
    find("#loop").addEventListener("click", toggleLoop);
    find("#copy-link").addEventListener("click", copyCurrent);
  }
  startFigures();
  startKeyboard({ move, toggleLoop, copyCurrent });
  startPlayer();
  goToAddress();
  addEventListener("hashchange", goToAddress);
  changed();
  document.documentElement.classList.add("ready");
}

start();
