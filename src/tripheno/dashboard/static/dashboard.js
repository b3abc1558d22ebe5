"use strict";
// Keys on the phenotypes page, and the live figures of a run in progress.
const cards = Array.from(document.querySelectorAll("article"));
let place = -1;

function step(by) {
  if (cards.length === 0) return;
  place = Math.min(Math.max(place + by, 0), cards.length - 1);
  cards[place].tabIndex = -1;
  cards[place].focus();
}

document.addEventListener("keydown", (event) => {
  if (event.target.matches("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "j") step(1);
  else if (event.key === "k") step(-1);
  else if (event.key === "/" && document.getElementById("search")) {
    event.preventDefault();
    document.getElementById("search").focus();
  }
});

function show(id, text) {
  const place = document.getElementById(id);
  if (place) place.textContent = text;
}

if (document.body.dataset.page === "/") {
  new EventSource("/live").addEventListener("iteration", (event) => {
    const line = JSON.parse(event.data);
    const shown = Number(document.getElementById("live-iteration").textContent);
    if (line.iteration <= shown) return; // the finished run's own figures stand already
    show("live-iteration", String(line.iteration));
    if (line.rmse !== null) show("live-rmse", line.rmse.toFixed(4));
    show("live-bytes", (line.bytes / 1048576).toFixed(2));
    show("live-seconds", line.seconds.toFixed(1));
  });
}
