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

// ── a run in progress ─────────────────────────────────────────────────────────────────────────
const live = document.getElementById("live");
const megabytes = (bytes) => (bytes / 1048576).toFixed(2);
let lines = [];
let updated = live ? Date.parse(live.dataset.updated) : 0;

function show(id, text) {
  const place = document.getElementById(id);
  if (place && place.textContent !== text) place.textContent = text;
}

function draw(id, series, logarithmic) {
  const svg = document.getElementById(id);
  const scale = (value) => (logarithmic ? Math.log10(value) : value);
  const values = series.flatMap(({ points }) => points.map(([, value]) => scale(value)));
  svg.replaceChildren();
  if (values.length === 0) return;
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const last = Math.max(2, ...series.flatMap(({ points }) => points.map(([x]) => x)));
  const across = (x) => 70 + (280 * (x - 1)) / (last - 1);
  const down = (value) => 170 - (150 * (scale(value) - low)) / (high - low || 1);
  const add = (name, attributes, text) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text) made.textContent = text;
    svg.append(made);
  };
  const back = (value) => (logarithmic ? 10 ** value : value).toPrecision(4);
  for (const [value, y] of [[high, 20], [low, 170]]) {
    add("line", { x1: 70, x2: 350, y1: y, y2: y, class: "grid" });
    add("text", { x: 64, y: y + 4, "text-anchor": "end" }, logarithmic ? (10 ** value).toExponential(0) : back(value));
  }
  add("text", { x: 70, y: 190 }, "1");
  add("text", { x: 350, y: 190, "text-anchor": "end" }, String(last));
  for (const { points, name } of series) {
    if (points.length === 0) continue;
    add("polyline", { class: name, points: points.map(([x, v]) => `${across(x)},${down(v)}`).join(" ") });
    const [x, v] = points[points.length - 1];
    add("circle", { class: name, cx: across(x), cy: down(v), r: 3 });
  }
}

function drawLines() {
  const points = (field) => lines.filter((line) => line[field]).map((line) => [line.iteration, line[field]]);
  draw("live-error", [{ name: "solid", points: points("objective") }], false);
  draw("live-residuals", [{ name: "solid", points: points("primal") }, { name: "dashed", points: points("dual") }], true);
  const last = lines[lines.length - 1];
  if (!last) return;
  const rmse = last.rmse === null ? "" : `, RMSE ${last.rmse.toFixed(4)}`;
  show("live-lines", `Iteration ${last.iteration}${rmse}, ${megabytes(last.bytes)} MB sent, ${last.seconds.toFixed(1)} s.`);
}

// As tripheno.solver.remaining.spoken says it.
function spoken(seconds) {
  if (seconds < 90) return `${seconds.toFixed(0)} s`;
  return seconds < 5400 ? `${(seconds / 60).toFixed(0)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

function showTile(id, text) {
  document.getElementById(id).closest("li").hidden = text === "";
  if (text !== "") show(id, text);
}

function showStatus(status) {
  updated = Date.parse(status.updated);
  show("live-stage", status.stage);
  for (const field of ["start", "starts", "iteration", "most"]) show(`live-${field}`, String(status[field]));
  show("live-rounds", status.rounds.toLocaleString("en"));
  show("live-objective", status.objective === null ? "–" : status.objective.toPrecision(6));
  showTile("live-slowest", status.slowest);
  status.hospitals.forEach((one, index) => {
    const row = document.getElementById("live-hospitals").rows[index];
    if (!row) return;
    const answers = one.seconds === undefined ? "–" : one.seconds.toFixed(2);
    const cells = [one.step || "–", answers, megabytes(one.bytes_up), megabytes(one.bytes_down)];
    cells.forEach((text, n) => {
      const cell = row.cells[n + 3];
      const place = cell.firstElementChild || cell;
      if (place.textContent !== text) place.textContent = text;
    });
  });
}

if (live && live.dataset.going) {
  const source = new EventSource("/live");
  let waiting = false;
  source.addEventListener("begin", () => { lines = []; });
  source.addEventListener("iteration", (event) => {
    lines.push(JSON.parse(event.data));
    if (waiting) return; // many lines at once are one drawing
    waiting = true;
    requestAnimationFrame(() => { waiting = false; drawLines(); });
  });
  source.addEventListener("status", (event) => {
    const status = JSON.parse(event.data);
    if (status.state !== "running") {
      source.close();
      location.reload();
      return;
    }
    showStatus(status);
  });
  setInterval(() => {
    const silent = Math.round((Date.now() - updated) / 1000);
    const note = document.getElementById("live-silent");
    note.hidden = silent < 60;
    if (!note.hidden) note.textContent = `No sign of life for ${silent} seconds. A long iteration, or a run that was ended from outside.`;
  }, 1000);
}
