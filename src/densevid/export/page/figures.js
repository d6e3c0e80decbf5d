// A figure opens over the page: as large as the window and its pixels allow, but never smaller than it was drawn for;
// on a phone it is scrolled.

const enlarged = find("dialog");

function enlarge(picture) {
  const shown = picture.querySelector("img");
  const image = shown.cloneNode();
  const width = Math.min(innerWidth - 60, (innerHeight - 110) * (shown.naturalWidth / shown.naturalHeight || 1));
  image.width = Math.max(image.getAttribute("width"), Math.min(shown.naturalWidth, width));
  enlarged.setAttribute("aria-label", picture.closest("figure").querySelector("strong").textContent);
  enlarged.querySelector(".enlarged-picture").replaceChildren(image);
  enlarged.showModal();
}

function startFigures() {
  for (const picture of document.querySelectorAll("button.picture")) {
    picture.addEventListener("click", () => enlarge(picture));
  }
  enlarged.addEventListener("click", (click) => click.target === enlarged && enlarged.close()); // beside the picture
  find("#shrink").addEventListener("click", () => enlarged.close());
}
