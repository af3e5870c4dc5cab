// @ts-check
// Collectives, and of the one that is chosen how each rank's time in it splits into waiting and communication.
import { Bars } from "./bars.js";
import { el, put, refill } from "./dom.js";
import { Grid } from "./grid.js";
import { columnsOf } from "./planes.js";
import { Show } from "./show.js";

/** @typedef {import("./page-ranks.js").RanksPage} RanksPage */

/** @type {[string, string, "start" | "wait" | "transfer" | "skew"][]} */
const PARTS = [
  ["not there yet", "absent", "start"],
  ["waits for the last rank", "waiting", "wait"],
  ["communicates", "moving", "transfer"],
  ["stays longer than the first", "skew", "skew"],
];

export class RanksCollectives {
  static NAME = "collectives";
  static TITLE = "Collectives";

  // What is said of the one that is chosen.
  title = "";
  says = "";

  /** @param {RanksPage} app @param {HTMLElement} root @param {RanksBody} body @param {Columns} columns */
  constructor(app, root, { tables }, columns) {
    this.app = app;
    this.split = columnsOf(columns, "split", ["collective", "rank", "start", "wait", "transfer", "skew"]);
    this.columns = tables.find((one) => one.name === "rank_collectives")?.columns ?? [];
    /** @type {number[]} numbers of the collectives, by row */
    this.numbers = Array.from(this.columns.find((column) => column.name === "collective")?.cells ?? [], Number);
    this.one = el("div.one-collective", { tabIndex: 0 });
    const list = el("div.twin");
    put(root, el("div.bar", el("b", "Collectives, those with most waiting first")), list, this.one);
    this.grid = new Grid(list, "Collectives", {
      columns: this.columns,
      rows: this.numbers.length,
      click: (row) => app.selectCollective(this.numbers[row]),
      isMarked: (row) => this.numbers[row] === app.collective,
    });
    this.open(this.numbers[0] ?? -1);
  }

  /** First and last part of a collective, in the order of ranks. @param {number} number */
  partsOf(number) {
    const { collective } = this.split,
      first = collective.indexOf(number),
      found = [];
    for (let k = first; k >= 0 && collective[k] === number; k++) found.push(k);
    return found;
  }

  /** A cell of a row, as text. @param {number} row @param {string} name */
  cell(row, name) {
    const column = this.columns.find((one) => one.name === name);
    return column ? this.grid.text(column, row) : "";
  }

  /** @param {number} number */
  open(number) {
    const { split } = this,
      row = this.numbers.indexOf(number);
    if (row < 0) {
      refill(this.one, el("p.dim", "The ranks share no collective."));
      return;
    }
    const rows = this.partsOf(number).map((k) => ({
      name: this.app.ranks[split.rank[k]],
      says: `waits ${Show.span(split.wait[k])}`,
      parts: PARTS.map(([label, of, key]) => ({ label, class: of, ns: split[key][k] })).filter(({ ns }) => ns),
    }));
    const [group, step] = ["group", "step"].map((name) => this.cell(row, name));
    this.title = `Collective ${number}: ${this.cell(row, "kind")}`;
    this.says = [
      group && `group ${group}`,
      step && `step ${step}`,
      `${this.cell(row, "ranks")} ranks`,
      `waiting ${this.cell(row, "wait_us")} µs in all`,
      `latency ${this.cell(row, "latency_us")} µs`,
    ]
      .filter(Boolean)
      .join(" · ");
    const legend = Bars.legend(PARTS.map(([label, of]) => ({ label, class: of })));
    refill(
      this.one,
      el("h2", this.title),
      el("p.dim", this.says),
      rows.length
        ? Bars.rows("Each rank's time from the first start on", rows, legend)
        : el("p.dim", "Its ranks are not on this page, which has those of the collectives with most waiting."),
    );
  }

  shown() {
    this.grid.fill(true);
  }
}
