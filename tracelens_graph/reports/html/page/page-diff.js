// @ts-check
// The page of a comparison: a place or a frame is selected in all views, and the address says which.
import { DiffFlame } from "./diff-flame.js";
import { DiffOverview } from "./diff-overview.js";
import { DiffPlaces } from "./diff-places.js";
import { DiffShow } from "./diff-show.js";
import { button, el } from "./dom.js";
import { Page } from "./page.js";
import { Shell, textOf, unpacked } from "./shell.js";
import { Show } from "./show.js";
import { Tables, withoutLinks } from "./tables.js";

/** @type {[string, string][]} */
const KEYS = [
  ["1 … 4", "views"],
  [", .", "the place before and after"],
  ["click", "select a place, or zoom to a frame"],
  ["/", "search by a pattern"],
  ["n N", "next place that was found, the one before"],
  ["0", "the whole flame graph"],
  ["Esc", "select nothing, search nothing"],
];
const MOST_NAMED = 8;

// Both trees, and which of their names a search found.
class Compared {
  /** @type {Uint8Array | null} */
  lit = null;

  /** @param {DiffBody} body @param {Columns} columns */
  constructor(body, columns) {
    this.body = body;
    this.columns = columns;
  }

  /** @param {number} name */
  shortName(name) {
    return this.body.shorts[name] ?? this.body.names[name];
  }
}

export class DiffPage extends Page {
  // What is selected: the number of a place, 0 for none, or a frame, -1 for none.
  place = 0;
  frame = -1;

  /** @param {Shell} shell @param {string[]} letters @param {Compared} trace */
  constructor(shell, letters, trace) {
    super(shell);
    const { places, tables } = trace.body;
    this.letters = letters;
    this.trace = trace;
    withoutLinks(tables);
    for (const column of tables.flatMap((table) => table.columns))
      if (column.name?.startsWith("change_")) column.number = DiffShow.signed;
    this.rows = tables.find((one) => one.name === "diff_places")?.rows ?? 0;
    DiffOverview.finish(shell.root(DiffOverview), places);
    this.flame = new DiffFlame(this, shell.root(DiffFlame), trace);
    this.places = new DiffPlaces(this, shell.root(DiffPlaces), trace.body);
    this.tables = new Tables(shell.root(Tables), tables, ["diff_places"], (table) => this.content(table));
    this.views = { flame: this.flame, tables: this.tables };
  }

  /** A row of the places leads to its place. @param {TableData} table @returns {GridContent} */
  content(table) {
    if (table.name !== "diff_places") return table;
    const number = table.columns.find((column) => column.name === "place")?.cells ?? [];
    return {
      ...table,
      click: (row) => this.selectPlace(Number(number[row])),
      isMarked: (row) => number[row] === this.place,
    };
  }

  shownNow() {
    super.shownNow();
    this.details();
  }

  get linked() {
    return this.place ? [`place=${this.place}`] : this.frame >= 0 ? [`frame=${this.frame}`] : [];
  }

  follow() {
    const { view, number } = this.asked,
      place = number("place"),
      frame = number("frame");
    if (view) this.show(view);
    if (place) {
      if (!view) this.show("places");
      this.selectPlace(place);
    } else if (frame !== null && frame < this.flame.made.n) {
      if (!view) this.show("flame");
      this.selectFrame(frame);
      this.flame.reveal(frame);
    }
  }

  /** @param {number} number */
  selectPlace(number) {
    if (number < 1 || number > this.rows) {
      this.say(`there are ${Show.count(this.rows)} places`);
      return;
    }
    this.place = number;
    this.frame = -1;
    this.places.open(number);
    if (this.tables.name !== "diff_places") this.tables.open("diff_places");
    this.tables.grid.reveal(number - 1);
    this.flame.revealPlace(number);
    this.details();
    this.link();
  }

  /** @param {string} view @param {number} number */
  showPlace(view, number) {
    this.show(view);
    this.selectPlace(number);
  }

  /** @param {number} frame */
  selectFrame(frame) {
    this.frame = frame;
    this.place = 0;
    this.tables.grid.fill(true);
    this.details();
    this.link();
  }

  unselect() {
    this.selectFrame(-1);
    this.flame.draw();
  }

  details() {
    if (this.place && this.shown !== "places") this.placeDetails(this.place);
    else if (this.frame >= 0) this.frameDetails(this.frame);
    else this.selectedBox();
  }

  /** @param {number} number */
  placeDetails(number) {
    const place = this.trace.body.places[number - 1];
    this.selectedBox(
      el(
        "div.what",
        el("b", place ? DiffShow.title(place) : `place ${number}`),
        place && [el("span", DiffShow.both(place.ns)), place.module && el("span.dim", place.module)],
      ),
      el("div.around", place ? place.why : "All that is known of it is in the table diff_places."),
      this.acts(
        button("Flame graph", () => this.showPlace("flame", number)),
        button("Place", () => this.showPlace("places", number)),
        button("Table", () => this.showPlace("tables", number)),
      ),
    );
  }

  /** @param {number} frame */
  frameDetails(frame) {
    const { flame, trace } = this,
      { names, places } = trace.body,
      inside = flame.placesIn(frame),
      more = inside.length - MOST_NAMED;
    this.selectedBox(
      el(
        "div.what",
        el("b", names[flame.made.name[frame]]),
        flame.saysOf(frame).map(([of, text]) => el("span", { class: of }, text)),
      ),
      el(
        "div.around",
        inside.length === 1 ? "in the place " : `in ${Show.count(inside.length)} places: `,
        inside
          .slice(0, MOST_NAMED)
          .map(({ place, ns }, k) => [
            k ? ", " : "",
            el("a", { href: `#view=places&place=${place}` }, `${place}. ${places[place - 1]?.op ?? ""}`),
            ` ${DiffShow.change(ns)}`,
          ]),
        more > 0 && `, and ${Show.count(more)} more`,
      ),
      this.acts(
        button("Flame graph", () => {
          this.show("flame");
          flame.reveal(frame);
          this.link();
        }),
      ),
    );
  }

  /** @param {string} text */
  search(text) {
    const { names, places } = this.trace.body,
      texts = places.flatMap(({ op, module, why }) => [op, module, why]);
    this.find(text, [...names, ...texts], (fits, note) => this.found(fits, note));
  }

  // What a search found: of all names, then of the op, the module and the reason of each place, which fit.
  /** @param {Uint8Array | null} fits @param {string} note */
  found(fits, note) {
    const { names, places } = this.trace.body;
    /** @param {Place} place @param {number} k */
    const isFound = (place, k) =>
      [0, 1, 2].some((part) => fits?.[names.length + 3 * k + part]) ||
      place.sides.some((side) => side.kernels.some(([name]) => fits?.[name]));
    this.trace.lit = fits?.subarray(0, names.length) ?? null;
    this.matches = places.filter(isFound).map((one) => one.place);
    const frames = Array.from(this.flame.made.name).filter((name) => fits?.[name]).length,
      count = `${Show.count(frames)} frames, ${Show.count(this.matches.length)} places`;
    this.say(fits ? `${count}${note && `, ${note}`}` : "");
    if (this.shown === "flame") this.flame.draw();
    else this.flame.showMatched();
  }

  /** @param {number} by */
  next(by) {
    if (this.isReadyFor(by)) this.nextMatch(by, this.place, "places", (one) => this.selectPlace(one));
  }

  /** @param {string} key */
  key(key) {
    if (key !== "," && key !== ".") return super.key(key);
    const to = this.place + (key === "." ? 1 : -1);
    if (to >= 1 && to <= this.rows) this.selectPlace(to);
    return true;
  }
}

/** @type {DiffHead} */
const head = JSON.parse(textOf("head"));
const { overview } = head,
  letters = overview.sides.map(({ letter, name }) => (letter === name ? letter : `${letter} (${name})`)),
  shell = new Shell(head.title, [DiffOverview, DiffFlame, DiffPlaces, Tables], KEYS);
DiffOverview.begin(shell.root(DiffOverview), overview, letters);
shell.run(async () => {
  const { body, columns } = await unpacked(head.columns);
  return new DiffPage(shell, letters, new Compared(body, columns));
});
