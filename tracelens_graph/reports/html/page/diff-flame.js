// @ts-check
// The flame graph of two call trees as one: width is time, colour is what became of it.
import { clipped, cssColor, inkOn, mixed, rgbOf } from "./canvas.js";
import { DiffShow } from "./diff-show.js";
import { choice, el, put } from "./dom.js";
import { FlameGraph } from "./flame-graph.js";
import { gridOf } from "./grid.js";
import { columnsOf } from "./planes.js";
import { Show } from "./show.js";
import { Stack } from "./stacks.js";

/** @typedef {import("./page-diff.js").DiffPage} DiffPage */
/** @typedef {import("./stacks.js").Box} Box */

/** @type {[string, string][]} */
const WIDTHS = [
  ["both", "the larger of both"],
  ["b", "time of B"],
  ["a", "time of A"],
];
/** @type {("parent" | "name" | "first" | "frame" | "side" | "place" | "ns" | "count" | "uid")[]} */
const COLUMNS = ["parent", "name", "first", "frame", "side", "place", "ns", "count", "uid"];
// Of frames in both, in A only, in B only: signs, and which way their stripes, 8 pixels apart, fall.
const SIGNS = ["", "− ", "+ "];
const STRIPE = 8;

// The colour of a change, from -1 (half the time or less) over 0 (equal) to 1 (twice as much or more).
/** @param {number} change */
const changeColor = (change) =>
  mixed(rgbOf("same"), rgbOf(change < 0 ? "less" : "more"), Math.min(Math.abs(change), 1));

const legend = () => {
  /** @param {string} side */
  const only = (side) => el("span.key", el(`i.swatch.only-${side}`), `only in ${side.toUpperCase()}`);
  return el(
    "span.scale",
    el("span", "½ or less"),
    el("i.ramp", { role: "img", "aria-label": "Blue: B takes less; grey: equal; orange: B takes more" }),
    el("span", "2 × or more"),
    only("a"),
    only("b"),
  );
};

// The frames of both sides, which are the same, with what is each side's.
/** @param {Record<"parent" | "name" | "first" | "frame" | "side" | "ns" | "count" | "uid", Numbers>} columns */
const sidesOf = ({ name, first, frame, side, ns, count, uid, ...columns }) => {
  const parent = columns.parent.map((value) => value - 1),
    a = new Stack(parent, name, first),
    b = new Stack(parent, name, first);
  for (let i = 0; i < frame.length; i++) (side[i] ? b : a).add(frame[i], ns[i], count[i], uid[i]);
  return [a.summed(), b.summed()];
};

export class DiffFlame extends FlameGraph {
  static LABEL = "Difference flame graph of GPU time";

  /** @param {DiffPage} app @param {HTMLElement} root @param {DiffPage["trace"]} trace */
  constructor(app, root, trace) {
    const columns = columnsOf(trace.columns, "diff", COLUMNS),
      sides = sidesOf(columns);
    super(root, trace, sides[0]);
    this.app = app;
    this.sides = sides;
    this.parts = columns;
    /** @type {Map<number, Set<number>>} place -> the frames that hold work of it */
    this.framesOf = new Map();
    this.parts.frame.forEach((/** @type {number} */ frame, /** @type {number} */ i) => {
      const place = this.parts.place[i],
        frames = this.framesOf.get(place) ?? new Set();
      this.framesOf.set(place, frames.add(frame));
    });
    /** @type {Pair} */
    this.matchedNs = [0, 0];
    /** @type {number[]} the frames of the table */
    this.listed = [];
    this.back = cssColor("back");
    this.options = { width: "both", byTime: false, collapsed: true };
    this.widths = choice("Width", WIDTHS, (width) => this.set({ width }));
    put(
      this.controls,
      el("label", "width: ", this.widths),
      this.check("byTime", "in the order of calls"),
      this.check("collapsed", "collapse chains"),
      legend(),
      this.matched,
    );
    this.compute();
  }

  compute() {
    const [a, b] = this.sides,
      { width } = this.options,
      made = new Stack(a.parent, a.name, a.first);
    for (let frame = 0; frame < a.n; frame++) {
      const both = Math.max(a.own[frame], b.own[frame]);
      made.own[frame] = width === "a" ? a.own[frame] : width === "b" ? b.own[frame] : both;
    }
    this.widths.value = String(width);
    this.refresh(made.summed());
  }

  recolor() {
    this.back = cssColor("back");
    super.recolor();
  }

  /** Time of both sides in a frame. @param {number} frame @returns {Pair} */
  both(frame) {
    const [a, b] = this.sides;
    return [a.total[frame], b.total[frame]];
  }

  /** 1: only in A, 2: only in B, 0: in both. @param {number} frame */
  only(frame) {
    const [a, b] = this.sides;
    return !b.count[frame] ? 1 : !a.count[frame] ? 2 : 0;
  }

  /** @param {number} frame */
  change(frame) {
    const [a, b] = this.both(frame),
      only = this.only(frame);
    if (only) return only === 1 ? -1 : 1;
    if (a === b) return 0;
    if (!a || !b) return a ? -1 : 1;
    return Math.max(-1, Math.min(1, Math.log2(b / a)));
  }

  /** @param {number} frame @param {number} kid */
  joins(frame, kid) {
    return this.sides.every((one) => one.total[frame] === one.total[kid] && one.count[frame] === one.count[kid]);
  }

  // A frame of one side only is striped.
  /** @param {CanvasRenderingContext2D} context @param {Box} box @param {[number, number, number, number]} place */
  fill(context, { chain }, ...place) {
    const frame = chain[chain.length - 1],
      only = this.only(frame),
      color = changeColor(this.change(frame)),
      [x, y, width, height] = place;
    context.fillStyle = `rgb(${color})`;
    context.fillRect(...place);
    if (only && width > 3)
      clipped(context, place, () => {
        const [from, to] = only === 1 ? [y, y + height] : [y + height, y];
        context.globalAlpha *= 0.32;
        context.strokeStyle = this.back;
        context.lineWidth = 2;
        context.beginPath();
        for (let at = x - height; at < x + width + height; at += STRIPE) {
          context.moveTo(at, from);
          context.lineTo(at + height, to);
        }
        context.stroke();
      });
    return inkOn(color, 130);
  }

  /** @param {CanvasRenderingContext2D} context @param {number[]} chain @param {number} room */
  fitted(context, chain, room) {
    const sign = SIGNS[this.only(chain[chain.length - 1])];
    return sign + super.fitted(context, chain, room - 8 * sign.length);
  }

  /** Whether a frame is the selected one, or holds work of the selected place. @param {number} frame */
  isChosen(frame) {
    const { place, frame: selected } = this.app;
    return place ? !!this.framesOf.get(place - 1)?.has(frame) : frame === selected;
  }

  /** @param {Box} box */
  isMarked({ chain }) {
    return chain.some((frame) => this.isChosen(frame));
  }

  /** Zoom to the lowest frame around all work of a place. @param {number} number */
  revealPlace(number) {
    const paths = Array.from(this.framesOf.get(number - 1) ?? [], (frame) => this.made.path(this.made.parent[frame])),
      [shortest = [], ...others] = paths.sort((a, b) => a.length - b.length),
      end = shortest.findIndex((one, k) => others.some((path) => path[k] !== one));
    this.zoomTo((end < 0 ? shortest : shortest.slice(0, end)).at(-1) ?? -1);
  }

  /** @param {number} frame */
  reveal(frame) {
    this.zoomTo(this.made.total[frame] > 0 ? frame : -1);
  }

  /** Work in a frame by place, the largest change first. @param {number} frame */
  placesIn(frame) {
    const { made, parts } = this,
      inside = new Uint8Array(made.n);
    /** @type {Map<number, Pair>} */
    const found = new Map();
    inside[frame] = 1;
    for (let at = frame + 1; at < made.n; at++) if (made.parent[at] >= 0 && inside[made.parent[at]]) inside[at] = 1;
    for (let i = 0; i < parts.frame.length; i++) {
      if (!inside[parts.frame[i]]) continue;
      const ns = found.get(parts.place[i] + 1) ?? [0, 0];
      ns[parts.side[i]] += parts.ns[i];
      found.set(parts.place[i] + 1, ns);
    }
    return Array.from(found, ([place, ns]) => ({ place, ns })).sort(
      (one, other) => Math.abs(other.ns[1] - other.ns[0]) - Math.abs(one.ns[1] - one.ns[0]),
    );
  }

  /** @param {number} frame */
  chosen(frame) {
    this.app.selectFrame(frame);
  }

  showMatched() {
    const { lit } = this.trace,
      [a, b] = this.sides;
    this.matchedNs = [a.matched(lit), b.matched(lit)];
    const here = this.zoomed < 0 ? null : DiffShow.both([a.matched(lit, this.zoomed), b.matched(lit, this.zoomed)]),
      inFrame = here ? `${here} in this frame, in all ` : "";
    this.matched.textContent = lit ? `matched: ${inFrame}${DiffShow.both(this.matchedNs)}` : "";
  }

  wholeSays() {
    const [a, b] = this.sides;
    return `GPU time ${DiffShow.both([a.sum, b.sum])}`;
  }

  /** @param {number} frame */
  shareSays(frame) {
    return DiffShow.change(this.both(frame));
  }

  /** What is said of a frame, line by line. @param {number} frame @returns {Lines} */
  saysOf(frame) {
    const only = this.only(frame),
      ns = this.both(frame),
      [a, b] = this.sides.map((one) => one.count[frame]);
    return [
      ["", only ? `only in ${this.app.letters[only - 1]}: ${Show.span(ns[only - 1])}` : DiffShow.both(ns)],
      [
        "dim",
        a === b
          ? `${Show.count(a)} GPU ${a === 1 ? "event" : "events"} on either side`
          : `${Show.count(a)} -> ${Show.count(b)} GPU events`,
      ],
    ];
  }

  /** @param {Box} box */
  says({ chain }) {
    return [...this.names(chain), ...this.saysOf(chain[0])];
  }

  /** @param {[number, number][]} inside */
  frameTable(inside) {
    const { made, trace } = this,
      [a, b] = this.sides;
    this.listed = inside.map(([frame]) => frame);
    /** @param {number} frame */
    const change = (frame) => b.total[frame] - a.total[frame];
    /** @param {number} uid */
    const known = (uid) => (uid < 0 ? null : uid);
    const table = gridOf(inside, [
      ["frame", "text", ([frame]) => trace.body.names[made.name[frame]]],
      ["A", "number", ([frame]) => a.total[frame] / 1e6, "ms", 3],
      ["B", "number", ([frame]) => b.total[frame] / 1e6, "ms", 3],
      ["change", "number", ([frame]) => change(frame) / 1e6, "ms", 3, { number: DiffShow.signed }],
      [
        "change",
        "number",
        ([frame]) => (a.total[frame] ? (100 * change(frame)) / a.total[frame] : null),
        "%",
        1,
        { number: DiffShow.signed },
      ],
      ["only in", "text", ([frame]) => ["", "A", "B"][this.only(frame)]],
      ["events A", "number", ([frame]) => a.count[frame], "", 0],
      ["events B", "number", ([frame]) => b.count[frame], "", 0],
      ["longest in A", "id", ([frame]) => known(a.uid[frame])],
      ["longest in B", "id", ([frame]) => known(b.uid[frame])],
      ["depth", "number", ([, depth]) => depth, "", 0],
    ]);
    return { ...table, isMarked: (/** @type {number} */ row) => this.isChosen(this.listed[row]) };
  }
}
