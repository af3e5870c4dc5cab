// @ts-check
// One step on all ranks: above in each lane a rank computes, below it waits and communicates, on the common clock.
import { TimeView, clipped, cssColor } from "./canvas.js";
import { button, el, key, put } from "./dom.js";
import { Grid, gridOf } from "./grid.js";
import { columnsOf } from "./planes.js";
import { RanksBandwidth } from "./ranks-bandwidth.js";
import { RankCanvas } from "./ranks-canvas.js";
import { Show } from "./show.js";

/** @typedef {import("./page-ranks.js").RanksPage} RanksPage */
// What is at a place: a rank, a part of a collective, or a bar of what is of no single one.
/** @typedef {{ rank?: number, part?: number, bar?: number }} Hit */

// Height of a lane, and of the axis.
const LANE = { least: 14, most: 34, all: 560 };
const AXIS = 22;
const KINDS = ["computes", "waits in shorter collectives", "communicates in shorter collectives"];
const COLORS = ["computing", "waiting", "moving"];
// What is seen before the step and behind it, of its time.
const PAD = 0.01;
// The shortest span that is seen, ns.
const LEAST = 100;

export class RanksStep extends TimeView {
  static NAME = "step";
  static TITLE = "Step";
  static LABEL = "One step on all ranks";

  left = RankCanvas.GUTTER;

  /** @param {RanksPage} app @param {HTMLElement} root @param {RanksBody} body @param {Columns} columns */
  constructor(app, root, { step, texts }, columns) {
    const whole = { from: -PAD * step.ns, to: (1 + PAD) * step.ns };
    super({ ...whole });
    this.app = app;
    this.step = step;
    this.texts = texts;
    this.whole = whole;
    this.bars = columnsOf(columns, "bar", ["lane", "what", "start", "dur"]);
    // Collective and size are one more than its number and its bytes; 0 for none.
    this.parts = columnsOf(columns, "part", ["lane", "start", "wait", "dur", "collective", "size"]);
    this.lane = Math.max(LANE.least, Math.min(LANE.most, Math.floor(LANE.all / Math.max(step.lanes.length, 1))));
    this.late = new Map(step.late);
    this.last = this.lastParts();
    const what = step.step === null ? "The whole recording" : `Step ${step.step}`,
      title = `${what}${step.is_median ? " (the one of median duration)" : ""} on all ranks`;
    this.pane = new RankCanvas(title, AXIS + step.lanes.length * this.lane + 4, (context, width) =>
      this.draw(context, width),
    );
    const list = el("div.twin");
    put(
      root,
      el(
        "div.bar",
        el("b", title),
        button("Whole", () => this.show(whole.from, whole.to)),
        el(
          "span.scale",
          key("computing", "computes"),
          key("waiting", "waits for other ranks"),
          key("moving", "communicates"),
          el("span.key", el("i.diamond"), "comes last"),
          el("span.key", el("i.tick"), "a step begins"),
        ),
      ),
      this.pane.box,
      el(
        "p.dim",
        "Above in each lane a rank computes, below it waits and communicates. Lines join the starts of one collective.",
      ),
      step.notes.map((note) => el("p.dim", note)),
      list,
    );
    this.grid = new Grid(list, "Collectives in the step, by rank", this.table());
    this.listen(this.pane.canvas, {
      hover: (x, y) => this.says(this.at(x, y)),
      click: (x, y) => this.chosen(this.at(x, y)),
    });
  }

  table() {
    const { parts, step, texts, app } = this;
    return gridOf(
      Array.from(parts.lane, (_, k) => k),
      [
        ["rank", "text", (k) => this.rankOf(parts.lane[k])],
        ["kind", "text", (k) => texts[step.kinds[k]]],
        ["collective", "id", (k) => (parts.collective[k] ? parts.collective[k] - 1 : null)],
        ["start", "number", (k) => parts.start[k] / 1e6, "ms", 6],
        ["waits", "number", (k) => parts.wait[k] / 1e6, "ms", 6],
        ["duration", "number", (k) => parts.dur[k] / 1e6, "ms", 6],
        ["bytes", "number", (k) => (parts.size[k] ? parts.size[k] - 1 : null), "", 0],
        ["group", "text", (k) => texts[step.groups[k]]],
      ],
      {
        click: (row) => this.chosen({ part: row }),
        isMarked: (row) => parts.collective[row] > 0 && parts.collective[row] - 1 === app.collective,
      },
    );
  }

  /** The name of the rank of a lane. @param {number} lane */
  rankOf(lane) {
    return this.app.ranks[this.step.lanes[lane]];
  }

  // Of each collective whose last rank is late, the part of that rank.
  lastParts() {
    const { parts } = this,
      last = new Map();
    for (let k = 0; k < parts.lane.length; k++) {
      const number = parts.collective[k] - 1;
      if (this.late.has(number) && !(parts.start[k] <= parts.start[last.get(number)])) last.set(number, k);
    }
    return last;
  }

  /** Top of a lane; the middle of its lower half. @param {number} lane */
  top(lane) {
    return AXIS + lane * this.lane;
  }

  /** @param {number} lane */
  below(lane) {
    return this.top(lane) + this.lane * 0.75;
  }

  /** @param {CanvasRenderingContext2D} context @param {number} width */
  draw(context, width) {
    const { step, lane: high } = this;
    this.width = width - this.left;
    context.fillStyle = cssColor("panel");
    for (let lane = 1; lane < step.lanes.length; lane += 2) context.fillRect(this.left, this.top(lane), width, high);
    clipped(context, [this.left, 0, width, this.pane.height], () => {
      this.drawBars(context);
      this.drawJoins(context);
      context.strokeStyle = cssColor("text");
      context.lineWidth = 1.5;
      context.beginPath();
      step.begins.forEach((begins, lane) => {
        for (const at of begins) {
          context.moveTo(this.x(at), this.top(lane));
          context.lineTo(this.x(at), this.top(lane) + high - 1);
        }
      });
      context.stroke();
      for (const k of this.last.values()) {
        const { lane, start } = this.parts;
        RankCanvas.diamond(context, this.x(start[k]), this.below(lane[k]), Math.min(5, high / 4 + 1));
      }
    });
    step.lanes.forEach((rank, lane) =>
      RankCanvas.label(context, this.app.ranks[rank], this.top(lane) + high / 2, rank === this.app.rank),
    );
    this.drawAxis(context, width);
  }

  /** @param {CanvasRenderingContext2D} context */
  drawBars(context) {
    const { bars, parts, view } = this,
      half = this.lane / 2,
      colors = COLORS.map(cssColor);
    /** @param {number} lane @param {number} what @param {number} start @param {number} dur */
    const bar = (lane, what, start, dur) => {
      if (start + dur < view.from || start > view.to || !(dur > 0)) return;
      const x = this.x(start);
      context.fillStyle = colors[what];
      context.fillRect(x, this.top(lane) + (what ? half : 1), Math.max(this.x(start + dur) - x, 0.6), half - 1);
    };
    for (let k = 0; k < bars.lane.length; k++) bar(bars.lane[k], bars.what[k], bars.start[k], bars.dur[k]);
    for (let k = 0; k < parts.lane.length; k++) {
      bar(parts.lane[k], 1, parts.start[k], parts.wait[k]);
      bar(parts.lane[k], 2, parts.start[k] + parts.wait[k], parts.dur[k] - parts.wait[k]);
    }
  }

  // A line through the starts of what is one collective; that of the selected one stands out.
  /** @param {CanvasRenderingContext2D} context */
  drawJoins(context) {
    const { collective, lane, start } = this.parts;
    for (let from = 0, to; from < lane.length; from = to) {
      for (to = from + 1; to < lane.length && collective[to] === collective[from];) to++;
      if (!collective[from] || to < from + 2) continue;
      const isChosen = collective[from] - 1 === this.app.collective,
        order = Array.from({ length: to - from }, (_, k) => from + k).sort((a, b) => lane[a] - lane[b]);
      context.strokeStyle = cssColor(isChosen ? "accent" : "dim");
      context.globalAlpha = isChosen ? 1 : 0.45;
      context.lineWidth = isChosen ? 2.5 : 1;
      context.beginPath();
      for (const k of order) context.lineTo(this.x(start[k]), this.below(lane[k]));
      context.stroke();
    }
    context.globalAlpha = 1;
  }

  /** @param {CanvasRenderingContext2D} context @param {number} width */
  drawAxis(context, width) {
    const { from, to } = this.view,
      [unit, size] = Show.unit((one) => to - from >= 2 * one),
      step = Show.step((to - from) / size / Math.max(this.width / 110, 1));
    context.fillStyle = cssColor("back");
    context.fillRect(this.left, 0, width, AXIS - 1);
    context.fillStyle = cssColor("dim");
    for (let at = Math.ceil(from / size / step) * step; at <= to / size; at += step) {
      const mark = Number(at.toPrecision(12)),
        x = this.x(mark * size);
      if (x < this.left || x > width - 40) continue;
      context.fillRect(x, AXIS - 6, 1, 5);
      context.fillText(`${mark.toLocaleString("en-US")} ${unit}`, x + 3, 10);
    }
  }

  /** @param {number} x @param {number} y @returns {Hit | null} */
  at(x, y) {
    const { bars, parts, step } = this,
      lane = Math.floor((y - AXIS) / this.lane),
      ns = this.time(x),
      near = this.time(x + 2) - ns;
    if (lane < 0 || lane >= step.lanes.length) return null;
    if (x < this.left) return { rank: step.lanes[lane] };
    /** @param {Record<"lane" | "start" | "dur", Numbers>} all @param {number} k */
    const isHit = (all, k) =>
      all.lane[k] === lane && ns >= all.start[k] - near && ns <= all.start[k] + all.dur[k] + near;
    const isBelow = y - this.top(lane) >= this.lane / 2;
    if (isBelow) for (let k = 0; k < parts.lane.length; k++) if (isHit(parts, k)) return { part: k };
    for (let k = 0; k < bars.lane.length; k++) if (bars.what[k] > 0 === isBelow && isHit(bars, k)) return { bar: k };
    return null;
  }

  /** @param {Hit | null} at @returns {Lines | null} */
  says(at) {
    const { bars, app } = this;
    if (at?.part !== undefined) return this.saysPart(at.part);
    if (at?.rank !== undefined) return [["name", app.ranks[at.rank]]];
    if (at?.bar === undefined) return null;
    return [
      ["name", this.rankOf(bars.lane[at.bar])],
      ["", `${KINDS[bars.what[at.bar]]}: ${Show.span(bars.dur[at.bar])}`],
    ];
  }

  /** @param {number} k @returns {Lines} */
  saysPart(k) {
    const { parts, step, texts } = this,
      number = parts.collective[k] - 1,
      rank = this.rankOf(parts.lane[k]),
      group = texts[step.groups[k]],
      late = this.last.get(number) === k ? this.late.get(number) : undefined;
    const sequence = step.sequences[k] == null ? "" : ` #${Show.count(step.sequences[k])}`,
      bytes = parts.size[k] ? `, ${RanksBandwidth.bytes(parts.size[k] - 1)}` : "",
      takes =
        number < 0
          ? `takes ${Show.span(parts.dur[k])}; not matched with other ranks`
          : `waits ${Show.span(parts.wait[k])}, then takes ${Show.span(parts.dur[k] - parts.wait[k])}`;
    /** @type {Lines} */
    const lines = [["name", `${texts[step.kinds[k]]}${sequence}${bytes}`]];
    if (group) lines.push(["dim", group]);
    lines.push(["", `${rank} ${takes}`]);
    if (late) lines.push(["", `comes last, ${Show.span(late)} after the median of the others`]);
    return lines;
  }

  /** @param {Hit | null} at */
  chosen(at) {
    if (at?.rank !== undefined) this.app.selectRank(at.rank);
    else if (at?.part !== undefined && this.parts.collective[at.part])
      this.app.selectCollective(this.parts.collective[at.part] - 1);
  }

  /** @param {number} from @param {number} to */
  show(from, to) {
    const { whole } = this,
      all = whole.to - whole.from,
      span = Math.min(Math.max(to - from, Math.min(LEAST, all)), all),
      begin = Math.max(whole.from, Math.min((from + to) / 2 - span / 2, whole.to - span));
    Object.assign(this.view, { from: begin, to: begin + span });
    this.pane.draw();
  }

  get keys() {
    return { ...super.keys, 0: () => this.show(this.whole.from, this.whole.to) };
  }

  shown() {
    this.pane.draw();
    this.grid.fill(true);
  }

  recolor() {
    this.pane.draw();
  }
}
