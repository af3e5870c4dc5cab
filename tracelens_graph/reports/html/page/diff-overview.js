// @ts-check
// The first view of a comparison: what changed in all, why, and what was compared.
import { Bars } from "./bars.js";
import { DiffShow } from "./diff-show.js";
import { el, plainTable, put } from "./dom.js";
import { Show } from "./show.js";

const PLACES = 5;

/** @param {string} text */
const number = (text) => el("td.number", text);

/** @param {string} caption @param {Child} rows */
const figure = (caption, rows) => el("figure", el("figcaption", caption), el("div.reasons", rows));

/** @param {DiffReason[]} reasons */
const reasonsOf = (reasons) => {
  const changed = reasons.reduce((sum, one) => sum + one.slower_ms + one.faster_ms, 0),
    most = Math.max(...reasons.flatMap((one) => [one.slower_ms, one.faster_ms]));
  return figure(
    "Why: share of all that became faster or slower",
    reasons.map((one) => [
      el("span.number", Show.percent(one.slower_ms + one.faster_ms, changed)),
      DiffShow.bar(one.faster_ms, one.slower_ms, most, {
        role: "img",
        "aria-label": `faster by ${DiffShow.ms(one.faster_ms)} ms, slower by ${DiffShow.ms(one.slower_ms)} ms`,
      }),
      el("span.number", `${DiffShow.changeMs(one.b_ms - one.a_ms)} ms`),
      el(
        "span",
        el("a", { href: `#view=places&place=${one.first}` }, one.reason),
        el("span.dim", ` ${one.meaning}; ${Show.count(one.places)} ${one.places === 1 ? "place" : "places"}`),
      ),
    ]),
  );
};

/** @param {DiffOverviewHead["totals"]} totals */
const timesOf = (totals) =>
  plainTable(
    "Times",
    ["", "A ms", "B ms", "change ms", "change %"].map((text, k) => [text, k > 0]),
    totals.map((row) =>
      el(
        "tr",
        el("td", row.meaning),
        number(DiffShow.ms(row.a_ms)),
        number(DiffShow.ms(row.b_ms)),
        number(DiffShow.changeMs(row.change_ms)),
        number(row.change_percent == null ? "" : DiffShow.signed(row.change_percent, 1)),
      ),
    ),
  );

// Both spans to one scale, with idle time by cause.
/** @param {DiffOverviewHead["sides"]} sides @param {string[]} letters */
const spansOf = (sides, letters) => {
  const rows = sides.map(({ parts }, k) => ({ name: letters[k], parts }));
  /** @type {Map<string, { label: string, class: string, both: Pair }>} */
  const found = new Map();
  rows.forEach(({ parts }, k) => {
    for (const part of parts) {
      const one = found.get(part.label) ?? { ...part, both: [0, 0] };
      one.both[k] += part.ns;
      found.set(part.label, one);
    }
  });
  const legend = Bars.legend([...found.values()], ({ both }) => el("span.dim", DiffShow.times(both)));
  return found.size > 0 && Bars.rows("Where the time went: GPU work, idle time, and what lies around them in steps", rows, legend);
};

/** @param {DiffOverviewHead["idle"]} rows */
const idleOf = (rows) => {
  const most = Math.max(...rows.map((row) => Math.abs(row.change_ms)));
  return figure(
    "Time without GPU work, by cause",
    rows.map((row) => [
      el("span.number", `${DiffShow.changeMs(row.change_ms)} ms`),
      DiffShow.bar(-row.change_ms, row.change_ms, most),
      el("span.number", `${DiffShow.ms(row.a_ms)} -> ${DiffShow.ms(row.b_ms)}`),
      el(
        "span",
        el("b", `${row.part === "around" ? "around the GPU work: " : ""}${row.cause.replace(/_/g, " ")}`),
        el("span.dim", ` ${row.why}`),
      ),
    ]),
  );
};

/** @param {DiffOverviewHead["facts"]} facts @param {string[]} letters */
const factsOf = (facts, letters) =>
  plainTable(
    "What was compared",
    ["", ...letters].map((text) => [text, false]),
    facts.map(([label, a, b]) =>
      el(
        "tr",
        { class: a === b ? "" : "other" },
        el("th", { scope: "row" }, label),
        [a, b].map((text) => el("td", text ?? "not recorded")),
      ),
    ),
  );

export const DiffOverview = {
  NAME: "overview",
  TITLE: "Overview",

  // What stands before anything is unpacked.
  /** @param {HTMLElement} root @param {DiffOverviewHead} head @param {string[]} letters */
  begin(root, head, letters) {
    put(
      root,
      el(
        "div.headline",
        el("h2", head.headline),
        head.sides.map((side) => el("p", side.text)),
        head.notes.map((note) => el("p.dim", note)),
      ),
      head.reasons.length > 0 && reasonsOf(head.reasons),
      el("div.top"),
      timesOf(head.totals),
      spansOf(head.sides, letters),
      head.idle.length > 0 && idleOf(head.idle),
      factsOf(head.facts, letters),
    );
  },

  /** The places with most of the change. @param {HTMLElement} root @param {Place[]} places */
  finish(root, places) {
    const changed = places.filter((one) => one.reason !== "same").slice(0, PLACES),
      top = root.querySelector(".top");
    if (!changed.length || !top) return;
    put(
      top,
      el(
        "h3",
        changed.length === 1
          ? "The place with most of the change"
          : `The ${changed.length} places with most of the change`,
      ),
      el(
        "ol.causes",
        changed.map((one) =>
          el(
            "li",
            { class: one.ns[1] < one.ns[0] ? "faster" : "slower" },
            el(
              "p.text",
              el("b", DiffShow.change(one.ns)),
              " ",
              el("a", { href: `#view=places&place=${one.place}` }, DiffShow.op(one)),
              el("span.dim", `  ${DiffShow.times(one.ns)}`),
            ),
            one.module && el("p.dim", one.module),
            el("p", one.why),
          ),
        ),
      ),
    );
  },
};
