"use strict";
// A click on the head of a column sorts its table by it, a second click the other way round.
document.addEventListener("click", (event) => {
  const head = event.target.closest("th");
  if (!head) return;
  const body = head.closest("table").tBodies[0];
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
// One round of an algorithm at a time, chosen by a slider. Without this script, and on paper, all are small.
const slide = (rounds) => {
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
};
document.querySelectorAll(".rounds").forEach(slide);
// The later sections are in <noscript>, which is mere text where there are scripts: a page of 20 runs opens at once. They
// follow one by one, or all together before the page is printed or a link leads to one of them.
const add = () => {
  const one = document.querySelector("section > noscript");
  if (!one) return false;
  const section = one.parentElement;
  one.outerHTML = one.textContent;
  section.querySelectorAll(".rounds").forEach(slide);
  return true;
};
const addAll = () => { while (add()); };
const addLater = () => setTimeout(() => add() && addLater());
const goTo = () => { addAll(); document.getElementById(location.hash.slice(1))?.scrollIntoView(); };
if (location.hash) goTo();
addEventListener("load", addLater);
addEventListener("hashchange", goTo);
addEventListener("beforeprint", addAll);
document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = root.dataset.theme || (dark ? "dark" : "light");
  root.dataset.theme = now === "dark" ? "light" : "dark";
});
// Paper has no clicks: all tables are on it.
addEventListener("beforeprint", () => document.querySelectorAll("details:not([open])").forEach((one) => {
  one.open = true;
  addEventListener("afterprint", () => { one.open = false; }, {once: true});
}));
