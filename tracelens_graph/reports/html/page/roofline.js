// @ts-check
// The roofline: operations by their arguments, below what the device could do.
import { Tip, el, key, put, refill, svg } from "./dom.js";
import { Grid, gridOf } from "./grid.js";
import { Plot } from "./plot.js";
import { Show } from "./show.js";

/** @typedef {import("./app.js").App} App */
/** @typedef {import("./events.js").Trace} Trace */

// Width of a letter of a label, at most, and height of a line of it.
const LETTER = 6.8;
const LINE = 15;
// By which factor the axes go beyond points and roofs.
const MARGIN = 2.5;
const LARGEST = 22;
const LABELLED = 5;
// Percent of the GPU time from which on an operation is a mark in the picture.
const LEAST = 0.1;
const HEIGHT = 520;

/** @param {RooflineData["roofs"][0]} roof */
const nameOf = ({ label, tflops, ridge }) =>
  `${label.replaceAll("_", " ")}: ${Show.number(tflops, 1)} TFLOP/s, ridge ${Show.number(ridge, 1)}`;

export class Roofline {
  static NAME = "roofline";
  static TITLE = "Roofline";

  /** @type {Grid | undefined} */
  grid = undefined;
  place = el("div");
  width = 0;

  /** @param {App} app @param {HTMLElement} root @param {Trace} trace */
  constructor(app, root, { body: { roofline, texts } }) {
    this.app = app;
    this.texts = texts;
    this.data = roofline;
    if (!roofline.points.length) {
      put(root, el("p.dim", `No roofline: ${roofline.why}`));
      return;
    }
    const list = el("div.twin");
    put(root, el("h2", `Operations under the roofline of ${roofline.device}`), this.place, list);
    this.grid = new Grid(list, "Operations", this.table(roofline));
    new ResizeObserver(() => this.shown()).observe(this.place);
  }

  // The picture has the width of the page.
  shown() {
    const width = this.place.clientWidth;
    if (!width || width === this.width) return;
    this.width = width;
    refill(this.place, this.picture(this.data, width));
  }

  print() {
    this.shown();
  }

  /** @param {RooflineData} data @param {number} width */
  picture(data, width) {
    const { roofs } = data,
      points = data.points.filter((one) => one.percent >= LEAST);
    if (!points.length) points.push(data.points[0]);
    const plot = new Plot(
      "Roofline",
      {
        width,
        height: HEIGHT,
        left: 64,
        right: LETTER * Math.max(...roofs.map((one) => nameOf(one).length), 20) + 12,
        top: 16,
        bottom: 46,
      },
      [...points.map((one) => one.x), ...roofs.map((one) => one.ridge)],
      [...points.map((one) => one.y), ...roofs.map((one) => one.tflops)],
      MARGIN,
    );
    plot.grid(Plot.power, Plot.power);
    plot.below("FLOPs per byte");
    plot.text("TFLOP/s", plot.edges.left + 6, plot.edges.top + 10);
    Roofline.roofs(plot, data);
    const greatest = Math.max(...points.map((one) => one.us));
    /** @param {RooflinePoint} one */
    const radius = (one) => Math.max(3, LARGEST * Math.sqrt(one.us / greatest)),
      largest = [...points].sort((a, b) => b.us - a.us);
    for (const one of largest) put(plot.svg, this.point(one, plot.x(one.x), plot.y(one.y), radius(one)));
    this.label(plot, largest.slice(0, LABELLED), radius);
    put(plot.box, Roofline.legend(data, points, this.texts));
    return plot.box;
  }

  /** Names beside marks, none on another. @param {Plot} plot @param {RooflinePoint[]} some @param {(one: RooflinePoint) => number} radius */
  label(plot, some, radius) {
    /** @type {[number, number, number][]} */
    const taken = [];
    for (const one of some) {
      const text = `${Show.cut(Show.label(this.texts[one.name], 32), 32)} ${one.percent.toFixed(1)} %`,
        size = text.length * LETTER,
        isLeft = plot.x(one.x) + radius(one) + size > plot.edges.right,
        x = plot.x(one.x) + (isLeft ? -1 : 1) * (radius(one) + 4),
        low = isLeft ? x - size : x;
      let y = plot.y(one.y) + 4;
      while (taken.some(([from, to, at]) => from < low + size && to > low && Math.abs(at - y) < LINE)) y += LINE / 3;
      taken.push([low, low + size, y]);
      plot.text(text, x, y, { class: "label", "text-anchor": isLeft ? "end" : "start" });
    }
  }

  /** What memory and arithmetic allow at most. @param {Plot} plot @param {RooflineData} data */
  static roofs(plot, { roofs, bandwidth }) {
    if (!roofs.length || !bandwidth) return;
    const { right } = plot.edges,
      most = roofs.reduce((best, one) => (one.tflops > best.tflops ? one : best)),
      begin = Math.max(10 ** plot.across[0], (10 ** plot.up[0] * 1e3) / bandwidth),
      middle = Math.sqrt(begin * most.ridge);
    /** @param {number} x */
    const memory = (x) => plot.y((x * bandwidth) / 1e3);
    plot.line("roof", plot.x(begin), memory(begin), plot.x(most.ridge), plot.y(most.tflops));
    plot.text(`memory ${Show.number(bandwidth / 1e3, 2)} TB/s`, plot.x(middle) - 10, memory(middle), {
      "text-anchor": "end",
      class: "label",
    });
    let free = 0;
    for (const roof of roofs) {
      const y = plot.y(roof.tflops),
        at = Math.max(y + 4, free);
      plot.line("roof", plot.x(roof.ridge), y, right, y);
      plot.text(nameOf(roof), right + 6, at, { class: "label" });
      free = at + 16;
    }
  }

  // The categories of what is drawn in a colour.
  /** @param {RooflinePoint[]} points @param {string} of @param {string[]} texts */
  static categories(points, of, texts) {
    return [...new Set(points.filter((one) => one.class === of).map((one) => texts[one.category]))].join(", ");
  }

  /** @param {RooflineData} data @param {RooflinePoint[]} points what is drawn @param {string[]} texts */
  static legend({ points: { length }, more, unplaced }, points, texts) {
    const small = length - points.length;
    const used = [...new Set(points.map((one) => one.class))];
    return [
      el(
        "div.legend",
        "area: GPU time ",
        used.map((of) => key(of, Roofline.categories(points, of, texts))),
      ),
      el(
        "p.dim",
        small > 0 &&
          `${Show.count(small)} below ${LEAST} % of the GPU time ${small === 1 ? "is" : "are"} in the table only. `,
        more > 0 && `${Show.count(more)} more operations are not drawn. `,
        unplaced > 0 &&
          `${Show.count(unplaced)} with a model compute nothing, or their bytes or time are not known: they are in the table unified_perf_summary.`,
      ),
    ];
  }

  /** A point is a button. @param {RooflinePoint} one @param {number} cx @param {number} cy @param {number} r */
  point(one, cx, cy, r) {
    const says = this.says(one),
      select = () => this.app.selectUid(one.uid, "roofline");
    return svg("circle", {
      cx,
      cy,
      r,
      class: "point",
      fill: one.class,
      tabindex: 0,
      role: "button",
      "aria-label": says.join(", "),
      onclick: select,
      onkeydown: (event) => {
        if (event.key !== "Enter") return;
        event.stopPropagation(); // on the page it would lead on to the next match
        select();
      },
      ...Tip.of(() => says.map((text, k) => [k ? "" : "name", text])),
    });
  }

  /** @param {RooflinePoint} one */
  says(one) {
    const { texts } = this;
    return [
      texts[one.name],
      texts[one.shapes],
      texts[one.types],
      `${Show.count(one.calls)} calls, ${Show.span(one.us * 1e3)} (${one.percent.toFixed(2)} %)`,
      `${Show.number(one.x, 2)} FLOPs per byte, ${Show.number(one.y, 3)} TFLOP/s`,
      one.roof == null ? "no roof" : `${one.roof.toFixed(1)} % of the roof; ${one.bound} bounds`,
      one.won_us == null ? "" : `at the roof it would take ${Show.span(one.won_us * 1e3)} less`,
    ].filter(Boolean);
  }

  /** @param {RooflineData} data */
  table({ points }) {
    const { texts } = this,
      classes = Object.fromEntries(points.map((one) => [texts[one.category], one.class]));
    return gridOf(
      points,
      [
        ["operation", "text", (one) => texts[one.name]],
        ["time", "number", (one) => one.us / 1e3, "ms", 3],
        ["could be won", "number", (one) => (one.won_us == null ? null : one.won_us / 1e3), "ms", 3],
        ["of the roof", "number", (one) => one.roof, "%", 1],
        ["bound", "text", (one) => one.bound],
        ["FLOPs/byte", "number", (one) => one.x, "", 2],
        ["TFLOP/s", "number", (one) => one.y, "", 3],
        ["calls", "number", (one) => one.calls, "", 0],
        ["uid", "uid", (one) => one.uid],
        ["category", "text", (one) => texts[one.category], "", 0, { classes }],
        ["shapes", "text", (one) => texts[one.shapes]],
        ["types", "text", (one) => texts[one.types]],
      ],
      { click: (row) => this.app.selectUid(points[row].uid, "roofline") },
    );
  }
}
