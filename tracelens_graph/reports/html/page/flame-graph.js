// @ts-check
// A flame graph, drawn from the top down, with the way to the frame that is zoomed to and the frames in it as a table.
import { clipped, cssColor, fit } from "./canvas.js";
import { Tip, button, el, fading, put, refill } from "./dom.js";
import { Grid } from "./grid.js";
import { Show } from "./show.js";

/** @typedef {import("./canvas.js").Palette} Palette */
/** @typedef {import("./canvas.js").Rgb} Rgb */
/** @typedef {import("./stacks.js").Box} Box */
/** @typedef {import("./stacks.js").Stack} Stack */
// What frames are called, and which of these names a search found.
/** @typedef {{ body: { names: string[] }, shortName(name: number): string, lit: Uint8Array | null }} Named */

// Rows of a picture: browsers have no higher canvas. A click shows what is below.
const DEEPEST = 600;
const MOST_LISTED = 20_000;

export class FlameGraph {
  static NAME = "flame";
  static TITLE = "Flame graph";
  // Height of a row.
  static ROW = 19;

  /** @type {{ byTime: boolean, collapsed: boolean, [name: string]: unknown }} */
  options = { byTime: false, collapsed: true };
  /** @type {Record<string, unknown> | undefined} the options at first */
  first = undefined;
  /** @type {Record<string, HTMLInputElement>} */
  checks = {};
  /** @type {Record<string, HTMLSelectElement>} lists of values of options */
  choices = {};
  /** @type {Box[]} */
  boxes = [];
  width = 0;
  // Mean width of a letter.
  letter = 7;
  // The frame that is zoomed to, and the one that is marked; -1 for none.
  zoomed = -1;
  marked = -1;

  /** @param {HTMLElement} root @param {Named} trace @param {Stack} made */
  constructor(root, trace, made) {
    this.root = root;
    this.trace = trace;
    this.made = made;
    this.controls = el("div.bar");
    this.matched = el("output.matched");
    this.crumbs = el("nav.crumbs", { "aria-label": "Zoomed to" });
    this.none = el("p.dim", { hidden: true }, "No GPU time was recorded here, so there are no frames.");
    this.canvas = el("canvas", {
      tabIndex: 0,
      role: "img",
      "aria-label": `${root.getAttribute("aria-label")}. The table below it says the same.`,
    });
    this.box = fading(el("div.frames", this.canvas));
    this.list = el("div.twin");
    put(root, this.controls, this.crumbs, this.none, this.box, this.list);
    this.grid = new Grid(this.list, "Frames");
    this.canvas.addEventListener("pointermove", (event) => {
      const box = this.at(event.offsetX, event.offsetY);
      this.canvas.classList.toggle("over", !!box);
      if (box) Tip.at(event, this.says(box));
      else Tip.hide();
    });
    this.canvas.addEventListener("pointerleave", Tip.hide);
    this.canvas.addEventListener("click", (event) => {
      const box = this.at(event.offsetX, event.offsetY);
      if (!box) return;
      this.chosen(box.chain[0]);
      this.zoom(box.chain[0]);
    });
    new ResizeObserver(() => this.draw()).observe(this.box);
  }

  // ---- what each graph says by itself

  // Make the frames anew for the options.
  compute() {}

  /** A frame is chosen. @param {number} _frame */
  chosen(_frame) {}

  // Draw a box; the colour of its label.
  /** @param {CanvasRenderingContext2D} _context @param {Box} _box @param {[number, number, number, number]} _place */
  fill(_context, _box, ..._place) {
    return "";
  }

  /** Whether a box has a line around it. @param {Box} box */
  isMarked({ chain }) {
    return chain.includes(this.marked);
  }

  // Whether a frame stays apart from those below it; whether one may join what it has all the time of.
  /** @param {number} _frame */
  isApart(_frame) {
    return false;
  }

  /** @param {number} _frame @param {number} _kid */
  joins(_frame, _kid) {
    return true;
  }

  // What is said of the whole, of a frame on the way to the one that is zoomed to, of a box, of what a search found.
  wholeSays() {
    return "";
  }

  /** @param {number} _frame */
  shareSays(_frame) {
    return "";
  }

  /** @param {Box} _box @returns {Lines} */
  says(_box) {
    return [];
  }

  showMatched() {}

  /** How many a frame stands for, behind its name. @param {number} _frame */
  times(_frame) {
    return "";
  }

  /** The table of frames, each with its depth. @param {[number, number][]} _inside @returns {GridContent} */
  frameTable(_inside) {
    return { columns: [], rows: 0 };
  }

  // ---- options and zoom

  /** A box that sets an option. @param {string} name @param {string} label */
  check(name, label) {
    this.checks[name] = el("input", { type: "checkbox" });
    this.checks[name].addEventListener("change", () => this.set({ [name]: this.checks[name].checked }));
    return el("label", this.checks[name], label);
  }

  /** @param {Record<string, unknown>} options */
  set(options) {
    Object.assign(this.options, options);
    this.zoomed = -1;
    this.compute();
    this.changed();
  }

  // Called when the options are others.
  changed() {}

  /** Options that are not as at first; the first of them, what frames are, is the mode. @returns {Record<string, string>} */
  get address() {
    const others = Object.entries(this.options).filter(([name, value]) => value !== (this.first ?? this.options)[name]);
    return Object.fromEntries(others.map(([name, value]) => [name === "view" ? "mode" : name, String(value)]));
  }

  // Options of an address, where there are such.
  /** @param {Asked} asked */
  restore(asked) {
    /** @type {Record<string, unknown>} */
    const found = {};
    for (const [name, value] of Object.entries(this.options)) {
      const text = asked.text(name === "view" ? "mode" : name);
      if (text === null) continue;
      const list = this.choices[name],
        isKnown = list ? [...list.options].some((one) => one.value === text) : /^(true|false)$/.test(text);
      if (isKnown) found[name] = typeof value === "boolean" ? text === "true" : typeof value === "number" ? Number(text) : text;
    }
    if (Object.keys(found).length) this.set(found);
  }

  /** Other frames are drawn. @param {Stack} made */
  refresh(made) {
    this.made = made;
    this.marked = -1;
    for (const [name, box] of Object.entries(this.checks)) box.checked = !!this.options[name];
    this.none.hidden = made.sum > 0;
    this.box.hidden = this.list.hidden = !this.none.hidden;
    this.zoomTo(-1);
  }

  /** @param {number} frame */
  zoom(frame) {
    this.zoomTo(frame === this.zoomed ? this.made.parent[frame] : frame);
  }

  /** -1 for all. @param {number} frame */
  zoomTo(frame) {
    this.zoomed = frame;
    this.draw();
    this.listFrames();
  }

  /** @param {string} key */
  key(key) {
    if (key === "0") this.zoomTo(-1);
    return key === "0";
  }

  shown() {
    this.draw();
  }

  recolor() {
    this.draw();
  }

  // ---- the picture

  draw() {
    const width = this.box.clientWidth;
    if (!width) return;
    this.width = width;
    this.boxes = this.made.boxes(this.zoomed, {
      ...this.options,
      least: 0.5 / width,
      isApart: (frame) => this.isApart(frame),
      joins: (frame, kid) => this.joins(frame, kid),
    });
    const deepest = this.boxes.reduce((most, box) => Math.max(most, box.row + 1), 1),
      height = Math.min(deepest, DEEPEST) * FlameGraph.ROW,
      context = fit(this.canvas, width, height),
      text = cssColor("text");
    context.fillStyle = cssColor("back");
    context.fillRect(0, 0, width, height);
    context.font = "12px system-ui, sans-serif";
    this.letter = context.measureText("kernel_sm90_gemm_aten::mm_Linear_0").width / 34;
    for (const box of this.boxes) this.drawBox(context, box, text);
    context.strokeStyle = text;
    context.lineWidth = 2;
    for (const box of this.boxes)
      if (this.isMarked(box))
        context.strokeRect(
          box.x * width + 1,
          box.row * FlameGraph.ROW + 1,
          Math.max(box.width * width - 2, 2),
          FlameGraph.ROW - 3,
        );
    this.drawCrumbs();
    this.showMatched();
  }

  /** @param {CanvasRenderingContext2D} context @param {Box} box @param {string} text */
  drawBox(context, box, text) {
    const { lit } = this.trace,
      isLit = !lit || box.chain.some((frame) => lit[this.made.name[frame]]);
    const x = box.x * this.width,
      y = box.row * FlameGraph.ROW,
      size = box.width * this.width;
    context.globalAlpha = isLit ? 1 : 0.2;
    const ink = this.fill(context, box, x, y, Math.max(size - (size > 3 ? 1 : 0), 0.5), FlameGraph.ROW - 1);
    if (size > 30)
      clipped(context, [x, y, size - 5, FlameGraph.ROW], () => {
        context.fillStyle = isLit ? ink : text;
        context.fillText(this.fitted(context, box.chain, size - 10), x + 4, y + FlameGraph.ROW / 2);
      });
    context.globalAlpha = 1;
  }

  // Names of a chain, within a room in pixels.
  /** @param {CanvasRenderingContext2D} context @param {number[]} chain @param {number} room */
  fitted(context, chain, room) {
    let letters = Math.ceil(room / this.letter) + 2,
      text = "";
    do text = this.cut(chain, letters--);
    while (text && context.measureText(text).width > room);
    return text;
  }

  // The name that says most is that of what is nearest to the kernel.
  /** @param {number[]} chain @param {number} letters */
  cut(chain, letters) {
    const names = chain.map((frame) => this.trace.shortName(this.made.name[frame]) + this.times(frame)),
      whole = names.join(" › "),
      { isInverted } = this.options;
    if (whole.length <= letters) return whole;
    const nearest = isInverted ? names[0] : names[names.length - 1];
    if (chain.length === 1) return Show.label(nearest, letters);
    // The name of a kernel may be cut, those of what it is in may not.
    if (!isInverted && whole.length - nearest.length <= letters * 0.6) return Show.cut(whole, letters);
    const marked = isInverted ? `${nearest}…` : `…${nearest}`;
    return marked.length <= letters ? marked : Show.label(nearest, letters);
  }

  drawCrumbs() {
    const crumbs = this.made.path(this.zoomed).map((frame) => {
      const name = Show.cut(this.trace.shortName(this.made.name[frame]), 48) + this.times(frame);
      return [el("span", "›"), button(`${name} ${this.shareSays(frame)}`, () => this.zoomTo(frame))];
    });
    refill(
      this.crumbs,
      button(this.wholeSays(), () => this.zoomTo(-1)),
      crumbs,
    );
  }

  /** @param {number} x @param {number} y */
  at(x, y) {
    const row = Math.floor(y / FlameGraph.ROW),
      share = x / this.width;
    return this.boxes.find(
      (box) => box.row === row && share >= box.x && share < box.x + Math.max(box.width, 1 / this.width),
    );
  }

  /** Names of a chain, of a long one those at both ends. @param {number[]} chain @returns {Lines} */
  names(chain) {
    const few = chain.length > 9 ? [...chain.slice(0, 3), -1, ...chain.slice(-5)] : chain;
    return few.map((one) => ["name", one < 0 ? "…" : this.trace.body.names[this.made.name[one]] + this.times(one)]);
  }

  // The frames below the one that is zoomed to, as a table.
  listFrames() {
    const { made } = this,
      base = made.path(this.zoomed).length;
    /** @type {[number, number][]} */
    const inside = this.zoomed >= 0 ? [[this.zoomed, base - 1]] : [],
      /** @type {[number, number][]} */
      walk = [[this.zoomed, base]];
    for (let one = walk.pop(); one && inside.length < MOST_LISTED; one = walk.pop()) {
      const [frame, depth] = one;
      for (const kid of made.kids(frame)) {
        if (made.total[kid] <= 0) continue;
        inside.push([kid, depth]);
        walk.push([kid, depth + 1]);
      }
    }
    inside.sort((a, b) => made.total[b[0]] - made.total[a[0]]);
    this.grid.show({
      ...this.frameTable(inside),
      click: (row) => {
        this.chosen(inside[row][0]);
        this.zoomTo(inside[row][0]);
      },
    });
  }
}
