// @ts-check
// The flame graph of the GPU time of a trace, and of its host time.
import { Palette, cssColor } from "./canvas.js";
import { choice, el, put } from "./dom.js";
import { FlameGraph } from "./flame-graph.js";
import { gridOf } from "./grid.js";
import { Show } from "./show.js";
import { Stack } from "./stacks.js";

/** @typedef {import("./app.js").App} App */
/** @typedef {import("./events.js").Trace} Trace */
/** @typedef {import("./stacks.js").Box} Box */

// Classes of frames that stay apart from those below them.
const PASSES = ["forward", "backward", "optimizer", "none"];
// Height of the line that marks idle time.
const IDLE_ROW = 3;
// Views that say something only where the trace has frames of this class.
/** @type {Record<string, string>} */
const NEEDS = { modules: "module", python: "python" };

export class Flame extends FlameGraph {
  static LABEL = "Flame graph";

  /** @param {App} app @param {HTMLElement} root @param {Trace} trace */
  constructor(app, root, trace) {
    const { steps } = trace.body.flame,
      every = Object.entries(trace.body.flame.views);
    /** @param {string} view */
    const says = (view) =>
      every.length < 2 || !NEEDS[view] || trace.classesOf(trace.columns[`${view}.name`]).has(NEEDS[view]);
    let views = Object.fromEntries(every.filter(([view]) => says(view)));
    if (views.modules && says("modules")) {
      Stack.merge(trace.columns, "modules", "classes", trace.moduleClasses());
      views = { classes: "class of module, op, kernel", ...views };
    }
    const [view] = Object.keys(views);
    super(root, trace, Stack.of(trace.columns, view, 0, false));
    this.app = app;
    this.trace = trace;
    this.options = { view, step: 0, byTime: false, isInverted: false, collapsed: true };
    this.views = choice("Frames", Object.entries(views), (name) => this.set({ view: name }));
    /** @type {[number, string][]} */
    const some = ["all steps", ...steps].map((name, k) => [k, name]);
    this.step = choice("Step", some, (number) => this.set({ step: Number(number) }));
    // Through the steps, one after the other: what changes with the batch is seen at once.
    this.scrub = el("input", { type: "range", min: 0, max: steps.length, value: "0", "aria-label": "Through the steps" });
    this.scrub.addEventListener("input", () => this.set({ step: Number(this.scrub.value) }));
    this.choices = { view: this.views, step: this.step };
    this.first = { ...this.options };
    this.palette = new Palette(trace.body.classes);
    this.matchedNs = 0;
    this.idleNote = el("span.idle-note", { hidden: true }, "Line below a frame: the GPU was idle.");
    const used = Object.keys(views).map((one) => trace.classesOf(trace.columns[`${one}.name`]));
    put(
      this.controls,
      Object.keys(views).length > 1 && this.views,
      steps.length > 0 && this.step,
      steps.length > 2 && this.scrub,
      this.check("byTime", "by time"),
      this.check("isInverted", "inverted"),
      this.check("collapsed", "collapse chains"),
      this.matched,
      this.idleNote,
      trace.legend(new Set(used.flatMap((one) => [...one]))),
    );
    this.compute();
  }

  compute() {
    const { view, step, isInverted } = this.options;
    this.views.value = String(view);
    this.step.value = this.scrub.value = String(step);
    this.refresh(Stack.of(this.trace.columns, String(view), Number(step), !!isInverted));
    this.idleNote.hidden = !this.made.idle.some(Boolean);
  }

  recolor() {
    this.palette = new Palette(this.trace.body.classes);
    super.recolor();
  }

  /** Select the node that stands for a frame: the longest GPU event in it. @param {number} frame */
  chosen(frame) {
    if (this.made.uid[frame] >= 0) this.app.selectUid(this.made.uid[frame], "flame");
  }

  /** @param {number} frame */
  classOf(frame) {
    return this.trace.classOf[this.made.name[frame]];
  }

  /** @param {number} frame */
  isApart(frame) {
    return PASSES.includes(this.trace.body.classes[this.classOf(frame)]);
  }

  /** @param {CanvasRenderingContext2D} context @param {Box} box @param {[number, number, number, number]} place */
  fill(context, { chain }, ...place) {
    const of = this.classOf(this.options.isInverted ? chain[0] : chain[chain.length - 1]);
    context.fillStyle = this.palette.css[of];
    context.fillRect(...place);
    this.markIdle(context, chain[0], place);
    return this.palette.ink[of];
  }

  // A line along the lower edge: for how much of a frame's time the GPU was idle.
  /** @param {CanvasRenderingContext2D} context @param {number} frame @param {[number, number, number, number]} place */
  markIdle(context, frame, [x, y, width, height]) {
    const { idle, total } = this.made;
    if (!idle[frame]) return;
    context.fillStyle = cssColor("warning");
    context.fillRect(x, y + height - IDLE_ROW, (width * idle[frame]) / total[frame], IDLE_ROW);
  }

  // Which time a view shows, and what it counts.
  get measure() {
    return this.trace.body.flame.measures[String(this.options.view)] ?? "GPU time";
  }

  get counts() {
    return this.measure === "GPU time" ? "GPU events" : "calls";
  }

  /** @param {number} frame */
  times(frame) {
    const count = this.made.times?.[frame] ?? 1,
      isModule = this.trace.body.classes[this.classOf(frame)] === "module";
    return count > 1 && isModule ? ` x ${Show.count(count)}` : "";
  }

  wholeSays() {
    return `${this.measure} ${Show.span(this.made.sum)}`;
  }

  /** @param {number} frame */
  shareSays(frame) {
    return Show.percent(this.made.total[frame], this.made.sum);
  }

  /** @param {Box} box @returns {Lines} */
  says({ chain }) {
    const { made } = this,
      total = made.total[chain[0]],
      own = chain.reduce((sum, one) => sum + made.own[one], 0);
    return [
      ...this.names(chain),
      ["", `${Show.span(total)}, ${Show.percent(total, made.sum)} of the ${this.measure}`],
      ["dim", `${Show.count(made.count[chain[0]])} ${this.counts}; own ${Show.span(own)}`],
      ...this.idleSays(chain[0]),
    ];
  }

  /** @param {number} frame @returns {Lines} */
  idleSays(frame) {
    const { idle, total } = this.made;
    if (!idle[frame]) return [];
    return [["dim", `GPU idle meanwhile: ${Show.span(idle[frame])}, ${Show.percent(idle[frame], total[frame])}`]];
  }

  showMatched() {
    const { made, zoomed } = this,
      { lit } = this.trace;
    /** @param {number} ns @param {number} whole */
    const says = (ns, whole) => `${Show.span(ns)} (${Show.percent(ns, whole)})`;
    this.matchedNs = made.matched(lit);
    const here = zoomed < 0 ? "" : `${says(made.matched(lit, zoomed), made.total[zoomed])} in this frame, in all `;
    this.matched.textContent = lit ? `matched: ${here}${says(this.matchedNs, made.sum)}` : "";
  }

  /** @param {[number, number][]} inside */
  frameTable(inside) {
    const { made, trace } = this;
    /** @param {number} frame */
    const called = (frame) => trace.shortName(made.name[frame]);
    return gridOf(inside, [
      ["frame", "text", ([frame]) => trace.body.names[made.name[frame]] + this.times(frame)],
      ["total", "number", ([frame]) => made.total[frame] / 1e6, "ms", 3],
      ["own", "number", ([frame]) => made.own[frame] / 1e6, "ms", 3],
      ["%", "number", ([frame]) => (100 * made.total[frame]) / (made.sum || 1), "", 2],
      [this.counts, "number", ([frame]) => made.count[frame], "", 0],
      ["GPU idle", "number", ([frame]) => made.idle[frame] / 1e6, "ms", 3, { shown: made.idle.some(Boolean) }],
      ["longest", "uid", ([frame]) => made.uid[frame]],
      ["in", "text", ([frame]) => made.around(frame, called)],
      ["depth", "number", ([, depth]) => depth, "", 0, { shown: false }],
    ]);
  }

  // Zoom to the frame of a node, else of the nearest of its callers that has one; where this view has none, in another.
  /** @param {number} e */
  zoomToNode(e) {
    if (this.options.view === "classes") this.set({ view: "modules" }); // a node is in one module, not in all of a class
    const views = new Set([String(this.options.view), ...Array.from(this.views.options, ({ value }) => value)]);
    for (const node of [e, ...this.trace.above(e).reverse()])
      for (const view of views) {
        if (view !== this.options.view) this.set({ view });
        const frame = this.frameOf(node);
        if (frame < 0) continue;
        this.marked = frame;
        this.zoomTo(this.withOthers(frame));
        return true;
      }
    return false;
  }

  // The nearest frame around one, itself included, that has several others in it: one alone says nothing.
  /** @param {number} frame */
  withOthers(frame) {
    const { made } = this;
    for (let at = frame; at >= 0; at = made.parent[at])
      if (made.kids(at).filter((kid) => made.total[kid]).length > 1) return at;
    return frame;
  }

  // Of the frames with the name of a node that in the most of its callers, of these the widest; -1 for none.
  /** @param {number} e */
  frameOf(e) {
    const { trace, made } = this,
      name = trace.short(e),
      callers = new Set(trace.above(e).map((one) => trace.short(one)));
    let best = -1,
      most = -1;
    for (let frame = 0; frame < made.n; frame++) {
      if (trace.shortName(made.name[frame]) !== name || !made.total[frame]) continue;
      const among = made.path(frame).filter((one) => callers.has(trace.shortName(made.name[one]))).length;
      if (among > most || (among === most && made.total[frame] > made.total[best])) [best, most] = [frame, among];
    }
    return best;
  }
}
