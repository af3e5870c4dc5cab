// @ts-check
// The slowdown of each worker as a map of colours with figures: by stage and data-parallel rank, else rank by rank.
import { el, fading } from "./dom.js";
import { Show } from "./show.js";

/** @param {SlowdownMap} map */
export const slowdownMap = ({ caption, columns, rows, notes }) => {
  const most = Math.max(...rows.flatMap(({ cells }) => cells.map((cell) => cell?.[1] ?? 1)), 1.01);
  /** @param {SlowdownCell | null} cell */
  const cellOf = (cell) => {
    if (!cell) return el("td");
    const [name, value, isCulprit] = cell,
      made = el(isCulprit ? "td.number.late" : "td.number", { title: name }, Show.number(value, 3));
    made.style.setProperty("--share", `${100 * Math.max(0, (value - 1) / (most - 1))}%`);
    return made;
  };
  return el(
    "figure",
    el("figcaption", caption),
    fading(
      el(
        "div.heat-map",
        el(
          "table.plain",
          el("thead", el("tr", el("td"), columns.map((name) => el("th.number", { scope: "col" }, name)))),
          el(
            "tbody",
            rows.map(({ name, cells }) => el("tr", name ? el("th", { scope: "row" }, name) : el("td"), cells.map(cellOf))),
          ),
        ),
      ),
    ),
    el(
      "div.scale",
      "1.000",
      el("i.heat-scale", { role: "img", "aria-label": "From no slowdown, pale, to the most, dark" }),
      Show.number(most, 3),
      rows.some(({ cells }) => cells.some((cell) => cell?.[2])) && el("span.key", "\u25C6 accounts for most of it"),
    ),
    notes.map((note) => el("p.dim", note)),
  );
};
