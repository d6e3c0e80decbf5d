// The whole video in a thin strip above a zoomed timeline: where the events are, and which part is in view.

const overview = find(".overview");
const overviewWindow = make("div", "overview-window");

function startOverview() {
  const marks = events.map((event) => {
    const mark = make("i", "");
    mark.dataset.hue = event.hue;
    mark.style.left = percent(event.start);
    mark.style.width = percent(event.end - event.start);
    event.mark = mark;
    return mark;
  });
  overview.append(...marks, overviewWindow);
  overview.addEventListener("pointerdown", (pointer) => {
    overview.setPointerCapture(pointer.pointerId);
    showAround(pointer.clientX);
  });
  overview.addEventListener("pointermove", (pointer) => {
    if (overview.hasPointerCapture(pointer.pointerId)) showAround(pointer.clientX);
  });
}

function showAround(clientX) {
  const box = overview.getBoundingClientRect();
  viewport.scrollLeft = ((clientX - box.left) / box.width) * track.clientWidth - viewport.clientWidth / 2;
}

function showWindow() {
  offerScrolling();
  overview.hidden = zoom === 1;
  const whole = viewport.scrollWidth;
  overviewWindow.style.left = `${(100 * viewport.scrollLeft) / whole}%`;
  overviewWindow.style.width = `${(100 * viewport.clientWidth) / whole}%`;
}
