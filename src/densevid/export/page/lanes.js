// The timeline: a ruler, the mask of the event in view, and for every group of events as many lanes as it needs.

const viewport = find(".viewport");
const track = find(".track");
const card = find(".card");
const FEWEST_PIXELS_PER_TICK = 74;
const MOST_PIXELS_PER_SECOND = 80;
const TICKS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200];
const bars = new Map();
const groups = new Map(); // elements of the track, and the events that lie in each
const playhead = make("div", "playhead");
const ruler = make("div", "ruler");
const ribbonName = make("p", "ribbon-name");
const ribbonPicture = make("div", "ribbon-picture");
const ribbon = make("div", "ribbon", ribbonName, ribbonPicture);
let zoom = 1;
let ribbonEvent; // undefined until the first is shown, null where nothing is described

const percent = (seconds) => `${(100 * seconds) / SECONDS}%`;

function drawLanes() {
  track.append(ruler, ribbon);
  for (const name of new Set(events.map((event) => event.group))) track.append(drawGroup(name));
  if (!events.length) track.append(make("p", "no-lanes", "No event that the model is confident about"));
  track.append(playhead);
  ribbon.hidden = events.every((event) => event.mask.length === 0);
}

function drawGroup(group) {
  const members = events.filter((event) => event.group === group);
  const element = make("div", "group");
  groups.set(element, members);
  setLanes(element, 1 + Math.max(...members.map((event) => event.lane)));
  if (new Set(events.map((event) => event.group)).size > 1) {
    element.append(make("div", "group-name", make("span", "", members[0].groupName)));
  }
  const body = make("div", "lanes");
  body.append(...members.map(drawBar));
  element.append(body);
  return element;
}

function setLanes(element, lanes) {
  element.style.setProperty("--lanes", lanes);
  element.classList.toggle("dense", lanes > 6);
}

// Those that are sure move together: the first lane that is free when an event starts, as `layout.py` has it.
function packLanes() {
  for (const [element, members] of groups) {
    const freeFrom = [];
    for (const event of members.filter(isSure)) {
      const free = freeFrom.findIndex((end) => end <= event.start);
      const lane = free < 0 ? freeFrom.length : free;
      freeFrom[lane] = event.end;
      bars.get(event).style.setProperty("--lane", lane);
    }
    setLanes(element, Math.max(1, freeFrom.length));
  }
  offerScrolling();
}

function drawBar(event) {
  const label = make("span", "label", event.sentence);
  label.dir = "auto";
  const bar = make("div", "bar", label);
  bar.dataset.hue = event.hue;
  bar.dataset.place = event.place;
  bar.style.left = percent(event.start);
  bar.style.width = percent(event.end - event.start);
  bar.style.setProperty("--lane", event.lane);
  bar.style.setProperty("--confidence", event.confidence ?? 1);
  bars.set(event, bar);
  return bar;
}

function drawRuler() {
  const pixelsPerSecond = track.clientWidth / SECONDS;
  const gap = TICKS.find((seconds) => seconds * pixelsPerSecond >= FEWEST_PIXELS_PER_TICK) ?? 14400;
  const ticks = [];
  for (let second = 0; second < SECONDS - 0.3 * gap; second += gap) {
    const tick = make("span", "tick", clockText(second));
    tick.style.left = percent(second);
    ticks.push(tick);
  }
  ruler.replaceChildren(...ticks);
}

function showMask(event) {
  if (ribbonEvent === event) return;
  ribbonEvent = event;
  ribbonName.textContent = `Event mask: ${maskText(event)}`;
  ribbonPicture.replaceChildren(...(event ? [maskPicture(event)] : []));
  ribbon.dataset.hue = event ? event.hue : "";
}

function maskText(event) {
  if (!event) return "none, no event at this moment";
  return event.mask.length ? spanText(event) : `none for ${spanText(event)}`;
}

function zoomTo(factor, clientX = null) {
  if (!viewport.clientWidth) return;
  const box = viewport.getBoundingClientRect();
  const at = clientX === null ? playhead.offsetLeft - viewport.scrollLeft : clientX - box.left;
  const anchor = Math.min(Math.max(at, 0), box.width);
  const share = (viewport.scrollLeft + anchor) / track.clientWidth;
  const most = Math.max(1, (SECONDS * MOST_PIXELS_PER_SECOND) / viewport.clientWidth);
  zoom = Math.min(Math.max(1, factor), most);
  track.style.width = `${100 * zoom}%`;
  viewport.scrollLeft = share * track.clientWidth - anchor;
  find("#zoom-out").disabled = find("#zoom-fit").disabled = zoom === 1;
  find("#zoom-in").disabled = zoom === most;
  drawRuler();
  showWindow();
}

// Where events would be slivers, start with bars wide enough to read; the overview keeps the whole in sight.
function firstZoom() {
  const lengths = events.map((event) => event.end - event.start).sort((a, b) => a - b);
  const typical = lengths[lengths.length >> 1] * (viewport.clientWidth / SECONDS);
  return typical < 24 ? 64 / typical : 1;
}

// What can be scrolled can be reached by the keyboard; what cannot is no stop on the way.
function offerScrolling() {
  const more = viewport.scrollHeight > viewport.clientHeight || viewport.scrollWidth > viewport.clientWidth;
  viewport.tabIndex = more ? 0 : -1;
}

const trackPlace = (seconds) => (Math.min(seconds, SECONDS) / SECONDS) * track.clientWidth;

function isInView(seconds) {
  const past = trackPlace(seconds) - viewport.scrollLeft;
  return past >= 0 && past <= viewport.clientWidth;
}

function keepInView(seconds) {
  if (!isInView(seconds)) viewport.scrollLeft = trackPlace(seconds) - 0.2 * viewport.clientWidth;
}

function showCard(event, bar) {
  const picture = event.item.querySelector("img")?.cloneNode() ?? "";
  const text = make("p", "card-sentence", event.sentence);
  text.dir = "auto";
  const score = event.sure || (event.confidence === null ? event.groupName : `confidence ${scoreText(event)}`);
  const facts = make("p", "card-facts", make("span", "", spanText(event)), make("span", "", score));
  const mask = event.mask.length ? make("div", "card-mask", maskPicture(event, event.maskStart, event.maskEnd)) : "";
  card.replaceChildren(picture, make("div", "card-text", text, facts, mask));
  card.dataset.hue = event.hue;
  card.hidden = false;
  placeCard(bar.getBoundingClientRect(), card.getBoundingClientRect());
}

// Just above the bar, else over the ruler or below the bar: never on the ribbon, which shows the same event's mask, and
// beside the buttons of the zoom.
function placeCard(box, own) {
  const middle = (Math.max(box.left, 0) + Math.min(box.right, innerWidth)) / 2;
  const above = box.top - own.height - 10;
  const fitsAbove = above > ribbon.getBoundingClientRect().bottom;
  const top = fitsAbove ? above : ruler.getBoundingClientRect().bottom - own.height - 4;
  const end = fitsAbove ? document.documentElement.clientWidth : find(".zoom").getBoundingClientRect().left;
  card.style.left = `${Math.max(8, Math.min(middle - own.width / 2, end - own.width - 8))}px`;
  card.style.top = `${top > 8 ? top : box.bottom + 10}px`;
}

const eventOf = (target) => events[target.closest?.(".bar")?.dataset.place];

function startLanes(choose, current) {
  drawLanes();
  track.addEventListener("click", (click) => {
    const event = eventOf(click.target);
    if (event) choose(event);
    else if (!ruler.contains(click.target)) player.seek(secondsAt(click.clientX));
  });
  track.addEventListener("pointerover", (pointer) => {
    const event = eventOf(pointer.target);
    if (event && pointer.pointerType === "mouse") showCard(event, bars.get(event));
    else card.hidden = true;
    showMask(event ?? current());
  });
  track.addEventListener("pointerleave", () => {
    card.hidden = true;
    showMask(current());
  });
  viewport.addEventListener("scroll", () => { card.hidden = true; showWindow(); }, { passive: true });
  viewport.addEventListener("wheel", (wheel) => {
    if (!wheel.ctrlKey && !wheel.metaKey) return;
    wheel.preventDefault();
    zoomTo(zoom * Math.exp(-wheel.deltaY / 300), wheel.clientX);
  }, { passive: false });
  startScrubbing();
  find("#zoom-in").addEventListener("click", () => zoomTo(zoom * 2));
  find("#zoom-out").addEventListener("click", () => zoomTo(zoom / 2));
  find("#zoom-fit").addEventListener("click", () => zoomTo(1));
  zoom = firstZoom();
  new ResizeObserver(() => zoomTo(zoom)).observe(viewport);
}

function secondsAt(clientX) {
  const box = track.getBoundingClientRect();
  return ((clientX - box.left) / box.width) * SECONDS;
}

function startScrubbing() {
  ruler.addEventListener("pointerdown", (pointer) => {
    ruler.setPointerCapture(pointer.pointerId);
    player.seek(secondsAt(pointer.clientX));
  });
  ruler.addEventListener("pointermove", (pointer) => {
    if (ruler.hasPointerCapture(pointer.pointerId)) player.seek(secondsAt(pointer.clientX));
  });
}
