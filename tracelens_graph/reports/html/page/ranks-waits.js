// @ts-check
// Waiting by rank and step as a map of colours, and beside it how long each rank held up the others.
import { cssColor, mixed, pointed, rgbOf } from "./canvas.js";
import { el, put } from "./dom.js";
import { Grid, gridOf } from "./grid.js";
import { RankCanvas } from "./ranks-canvas.js";
import { Show } from "./show.js";

/** @typedef {import("./page-ranks.js").RanksPage} RanksPage */
/** @typedef {import("./canvas.js").Rgb} Rgb */

// Height of a row, where the map begins, and of what is below it; the widest cell and bar.
const ROW = { least: 6, most: 26, all: 520 };
const TOP = 6;
const AXIS = 24;
const WIDEST = 130;
const BARS = 520;
// Room for the figure behind a bar.
const FIGURE = 74;

/** A colour between stops, from the first (0) to the last (1). @param {Rgb[]} stops @param {number} share */
const shade = (stops, share) => {
  const at = Math.min(Math.max(share, 0), 1) * (stops.length - 1),
    low = Math.min(Math.floor(at), stops.length - 2);
  return `rgb(${mixed(stops[low], stops[low + 1], at - low)})`;
};

export class RanksWaits {
  static NAME = "waits";
  static TITLE = "Waiting";
  static LABEL = "Waiting by rank and step";

  /** @param {RanksPage} app @param {HTMLElement} root @param {WaitsData} waits */
  constructor(app, root, waits) {
    this.app = app;
    this.waits = waits;
    this.most = Math.max(...waits.wait_ms.flat().map((one) => one ?? 0), 0);
    // What is little beside the waiting looks like it.
    const waited = waits.wait_ms.map((row) => row.reduce((/** @type {number} */ sum, one) => sum + (one ?? 0), 0));
    this.held = Math.max(...waits.all_held_up_ms, ...waited, 0);
    const many = waits.rows.length;
    this.row = Math.max(ROW.least, Math.min(ROW.most, Math.floor(ROW.all / Math.max(many, 1))));
    this.pane = new RankCanvas(RanksWaits.LABEL, TOP + many * this.row + AXIS, (context, width) =>
      this.draw(context, width),
    );
    pointed(this.pane.canvas, {
      hover: (x, y) => this.says(this.at(x, y)),
      click: (x, y) => {
        const at = this.at(x, y);
        if (at) app.selectRank(waits.rows[at.row]);
      },
    });
    const list = el("div.twin");
    put(
      root,
      el(
        "div.bar",
        el("b", waits.is_whole ? "Waiting by rank" : RanksWaits.LABEL),
        el("span.dim", "Colour: time in which a rank waits in collectives and does not compute."),
        el(
          "span.scale",
          "0",
          el("i.heat", { role: "img", "aria-label": "From no waiting, pale, to the most, dark" }),
          `${Show.number(this.most, 3)} ms`,
          el("span.key", el("i.diamond"), "held the others up most"),
        ),
      ),
      this.pane.box,
      waits.notes.map((note) => el("p.dim", note)),
      list,
    );
    const cells = waits.rows.flatMap((rank, row) => waits.steps.map((step, column) => ({ rank, row, step, column })));
    this.grid = new Grid(
      list,
      RanksWaits.LABEL,
      gridOf(
        cells,
        [
          ["rank", "text", (cell) => app.ranks[cell.rank]],
          ["step", "text", (cell) => cell.step],
          ["waits", "number", ({ row, column }) => waits.wait_ms[row][column], "ms", 3],
          ["step", "number", ({ row, column }) => waits.step_ms[row][column], "ms", 3],
          ["holds the others up", "number", ({ row, column }) => waits.held_up_ms[row][column], "ms", 3],
        ],
        { click: (row) => app.selectRank(cells[row].rank), isMarked: (row) => cells[row].rank === app.rank },
      ),
    );
  }

  /** Pixels of the map: left edge, width of a column; and of the bars beside it. @param {number} width */
  places(width) {
    const left = RankCanvas.GUTTER,
      columns = this.waits.steps.length,
      room = width - left - Math.max(140, width * 0.2) - 30;
    const cell = Math.min(room / columns, WIDEST),
      bars = left + cell * columns + 26;
    return { left, cell, bars, beside: Math.min(width - bars, BARS) - FIGURE };
  }

  /** Where a rank's row begins. @param {number} row */
  top(row) {
    return TOP + row * this.row;
  }

  /** @param {CanvasRenderingContext2D} context @param {number} width */
  draw(context, width) {
    const { waits, row: high, app } = this,
      { left, cell, bars, beside } = this.places(width),
      stops = [0, 1, 2, 3, 4].map((k) => rgbOf(`heat-${k}`)),
      gap = high > 12 && cell > 6 ? 1 : 0;
    waits.rows.forEach((rank, row) => {
      const y = this.top(row),
        isChosen = rank === app.rank;
      if (high >= 11 || row % Math.ceil(12 / high) === 0)
        RankCanvas.label(context, app.ranks[rank], y + high / 2, isChosen);
      waits.wait_ms[row].forEach((value, column) => {
        context.fillStyle = value == null ? cssColor("panel") : shade(stops, this.most ? value / this.most : 0);
        context.fillRect(left + column * cell, y, Math.max(cell - gap, 0.6), high - gap);
      });
      const held = waits.all_held_up_ms[row],
        length = this.held ? (beside * held) / this.held : 0;
      context.fillStyle = cssColor("late");
      context.fillRect(bars, y + 1, length, Math.max(high - 3, 2));
      if (high >= 11) {
        context.fillStyle = cssColor("dim");
        context.fillText(Show.number(held, 3), bars + length + 5, y + high / 2);
      }
      if (isChosen) {
        context.strokeStyle = cssColor("accent");
        context.lineWidth = 2;
        context.strokeRect(left - 1, y - 1, cell * waits.steps.length + 1, high);
      }
    });
    waits.late.forEach((row, column) => {
      const size = Math.min(5, high / 2, cell / 2);
      if (row >= 0) RankCanvas.diamond(context, left + (column + 0.5) * cell, this.top(row + 0.5), size);
    });
    this.drawSteps(context, width);
  }

  // Names of the steps below the map, as many as there is room for.
  /** @param {CanvasRenderingContext2D} context @param {number} width */
  drawSteps(context, width) {
    const { waits } = this,
      { left, cell, bars } = this.places(width),
      y = this.top(waits.rows.length) + 12;
    context.fillStyle = cssColor("dim");
    let free = left;
    waits.steps.forEach((step, column) => {
      const text = waits.is_whole ? step : `step ${step}`,
        x = left + column * cell + 2;
      if (x < free) return;
      context.fillText(text, x, y);
      free = x + context.measureText(text).width + 12;
    });
    context.fillText("held the others up, ms", bars, y);
  }

  /** The cell at a place; beside the map a row alone. @param {number} x @param {number} y */
  at(x, y) {
    const { left, cell, bars } = this.places(this.pane.width),
      row = Math.floor((y - TOP) / this.row),
      column = Math.floor((x - left) / cell);
    if (row < 0 || row >= this.waits.rows.length) return null;
    if (x >= bars || x < left) return { row, column: -1 };
    return column < this.waits.steps.length ? { row, column } : null;
  }

  /** @param {{ row: number, column: number } | null} at @returns {Lines | null} */
  says(at) {
    if (!at) return null;
    const { waits } = this,
      { row, column } = at,
      name = this.app.ranks[waits.rows[row]];
    /** @param {number | null} value */
    const ms = (value) => (value == null ? "not recorded" : `${Show.number(value, 3)} ms`);
    if (column < 0)
      return [
        ["name", name],
        ["", `holds the others up: ${ms(waits.all_held_up_ms[row])} in all`],
      ];
    return [
      ["name", waits.is_whole ? name : `${name}, step ${waits.steps[column]}`],
      ["", `waits for other ranks: ${ms(waits.wait_ms[row][column])}`],
      ["", `holds the others up: ${ms(waits.held_up_ms[row][column])}`],
      ["dim", `of ${ms(waits.step_ms[row][column])}`],
    ];
  }

  shown() {
    this.pane.draw();
    this.grid.fill(true);
  }

  recolor() {
    this.pane.draw();
  }
}
