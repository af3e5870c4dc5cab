// @ts-check
// Where the two sides part: a list, and all that is known of the place that is chosen.
import { DiffShow } from "./diff-show.js";
import { button, el, put, refill } from "./dom.js";
import { Show } from "./show.js";

/** @typedef {import("./page-diff.js").DiffPage} DiffPage */

/** Lines of both trees, one below the other. @param {string[]} lines */
const drawing = (lines) =>
  el(
    "pre",
    { tabIndex: 0 },
    lines.map((line) => el("div", { class: { "-": "minus", "+": "plus" }[line[0]] ?? "" }, line || " ")),
  );

export class DiffPlaces {
  static NAME = "places";
  static TITLE = "Places";

  /** @param {DiffPage} app @param {HTMLElement} root @param {DiffBody} body */
  constructor(app, root, { places, names, tables }) {
    this.app = app;
    this.places = places;
    this.names = names;
    const more = (tables.find((one) => one.name === "diff_places")?.rows ?? 0) - places.length,
      most = Math.max(...places.map(({ ns: [a, b] }) => Math.abs(b - a)), 0);
    this.list = el(
      "nav.list",
      { "aria-label": "Places, the largest change first" },
      places.map((place) => {
        const [a, b] = place.ns;
        return el(
          "button",
          { type: "button", "data-place": place.place, onclick: () => app.selectPlace(place.place) },
          el("span.head", el("b", DiffShow.change(place.ns)), DiffShow.bar(a - b, b - a, most)),
          el("span.op", DiffShow.title(place)),
          place.module && el("span.dim", place.module),
        );
      }),
      more > 0 && el("p.dim", `${Show.count(more)} more, with less of a change, are in the table.`),
    );
    this.one = el("div.one", !places.length && el("p.dim", "The GPU work is the same, event by event."));
    put(root, this.list, this.one);
    if (places.length) this.open(1);
  }

  /** @param {number} number */
  open(number) {
    const place = this.places[number - 1];
    for (const one of this.list.querySelectorAll("button")) {
      const isIt = Number(one.dataset.place) === number;
      one.setAttribute("aria-current", String(isIt));
      if (isIt) one.scrollIntoView?.({ block: "nearest" });
    }
    if (!place) {
      refill(this.one, el("p.dim", `Place ${Show.count(number)} is in the table diff_places.`));
      return;
    }
    const [a, b] = place.sides;
    refill(
      this.one,
      el("h2", DiffShow.title(place)),
      place.module && el("p.dim", place.module),
      el("p.figures", DiffShow.both(place.ns)),
      el("p", place.why),
      el("p.dim", `${place.reason}: ${place.meaning}`),
      el("div.sides", this.side("a", a, b), this.side("b", b, a)),
      place.drawn.length > 0 && [el("h3", "The calls that differ"), drawing(place.drawn)],
      place.commands.length > 0 && [el("h3", "Ask further"), place.commands.map(DiffShow.command)],
      el(
        "p.acts",
        button("Flame graph", () => this.app.showPlace("flame", number)),
        button("Table", () => this.app.showPlace("tables", number)),
      ),
    );
    this.one.scrollTop = 0;
  }

  // What one side does; what the other does not is marked.
  /** @param {"a" | "b"} letter @param {PlaceSide} side @param {PlaceSide} other */
  side(letter, side, other) {
    /** @type {[string, string | number | null, string | null][]} */
    const facts = [
      ["shapes", side.shapes, other.shapes],
      ["types", side.types, other.types],
      ["line", side.line, other.line],
      ["longest of all, uid", side.uid, null],
    ];
    const known = facts.filter(([, value]) => value != null);
    return el(
      `div.side.side-${letter}`,
      el("h3", this.app.letters["ab".indexOf(letter)]),
      known.length || side.kernels.length
        ? el(
            "dl",
            known.map(([label, value, that]) => [
              el("dt", label),
              el("dd", { class: that != null && that !== value ? "other" : "" }, value),
            ]),
          )
        : el("p.dim", "nothing here"),
      side.kernels.length > 0 &&
        el(
          "ul",
          side.kernels.map(([name, count, ns]) =>
            el(
              "li",
              el("span.number", `${Show.count(count)} ×, ${DiffShow.ms(ns / 1e6)} ms`),
              el("span", this.names[name]),
            ),
          ),
        ),
      side.more > 0 && el("p.dim", `and ${Show.count(side.more)} more kernels`),
    );
  }
}
