"use strict";
// A click on the head of a column sorts its table by it, a second click the other way round.
document.querySelectorAll("th button").forEach((button) => {
  button.addEventListener("click", () => {
    const head = button.parentElement, body = head.closest("table").tBodies[0];
    const column = head.cellIndex, down = head.getAttribute("aria-sort") === "ascending";
    const key = (row) => {
      const cell = row.cells[column];
      return cell.dataset.v === undefined ? cell.textContent : cell.dataset.v === "" ? null : Number(cell.dataset.v);
    };
    const rows = Array.from(body.rows, (row) => [key(row), row]);
    rows.sort(([a], [b]) => {
      if (a === null || b === null) return (a === null) - (b === null);
      const order = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
      return down ? -order : order;
    });
    head.parentElement.querySelectorAll("th").forEach((other) => other.setAttribute("aria-sort", "none"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    body.append(...rows.map(([, row]) => row));
  });
});
// One round of an algorithm at a time, chosen by a slider. Without this script, and on paper, all are small.
document.querySelectorAll(".rounds").forEach((rounds) => {
  const frames = Array.from(rounds.children), slider = document.createElement("input");
  const show = () => {
    frames.forEach((frame, i) => frame.classList.toggle("now", i === slider.value - 1));
    slider.setAttribute("aria-valuetext", frames[slider.value - 1].firstChild.textContent);
  };
  Object.assign(slider, {type: "range", min: 1, max: frames.length, value: 1});
  slider.setAttribute("aria-label", "Round");
  slider.addEventListener("input", show);
  rounds.classList.add("one");
  if (frames.length > 1) rounds.prepend(slider);
  show();
});
document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = root.dataset.theme || (dark ? "dark" : "light");
  root.dataset.theme = now === "dark" ? "light" : "dark";
});
addEventListener("load", () => setTimeout(() => document.documentElement.classList.add("all")));
// Paper has no clicks: all tables are on it.
addEventListener("beforeprint", () => document.querySelectorAll("details:not([open])").forEach((one) => {
  one.open = true;
  addEventListener("afterprint", () => { one.open = false; }, {once: true});
}));
