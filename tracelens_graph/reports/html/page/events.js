// @ts-check
// The events of the trace, and what is asked of them.
import { el, key } from "./dom.js";
import { Show } from "./show.js";

// Whose code a frame runs: plumbing of the framework, a library's, the user's or a model's.
const [PLUMBING, LIBRARY, USER] = [3, 4, 5];
// Classes of GPU work, which come first.
const GPU_CLASSES = 9;

export class Trace {
  /** @type {Uint8Array | null} for each name whether it is lit; null for all */
  lit = null;
  /** @type {Map<number, number> | null} */
  uids = null;
  /** @type {{ of: Int32Array, list: Int32Array } | null} */
  launches = null;

  /** @param {ReportBody} body @param {Unpacked} unpacked */
  constructor(body, { events, levels, columns }) {
    this.n = events.n;
    this.first = events.first;
    this.start = events.start;
    this.dur = events.dur;
    this.uid = events.uid;
    this.name = events.name;
    this.parent = events.parent;
    this.level = events.level;
    this.lane = events.lane;
    this.args = events.args;
    this.culprit = events.culprit;
    this.blamed = events.blamed;
    this.rest = events.rest;
    this.depth = events.depth;
    this.lanes = events.lanes;
    this.low = events.low;
    this.high = events.high;
    this.levels = levels;
    this.columns = columns;
    this.body = body;
    this.classOf = columns["name.class"];
    this.codeOf = columns["name.code"];
  }

  /** @param {number} e */
  end(e) {
    return this.start[e] + this.dur[e];
  }

  /** @param {number} e */
  text(e) {
    return e >= this.first.idle ? `idle: ${this.body.causes[this.name[e]].name}` : this.body.names[this.name[e]];
  }

  /** @param {number} e */
  short(e) {
    return e >= this.first.idle ? this.body.causes[this.name[e]].name : this.shortName(this.name[e]);
  }

  /** @param {number} name */
  shortName(name) {
    return this.body.shorts[name] ?? this.body.names[name];
  }

  /** Position among the colours: classes of names, then causes of idle time. @param {number} e */
  color(e) {
    return e >= this.first.idle ? this.body.classes.length + this.name[e] : this.classOf[this.name[e]];
  }

  // Names of all colours, in the order of their positions.
  get colors() {
    return [...this.body.classes, ...this.body.causes.map((cause) => `idle-${cause.class}`)];
  }

  /** @param {number} e */
  className(e) {
    return e >= this.first.idle ? "idle" : this.body.classes[this.classOf[this.name[e]]];
  }

  /** Whether an event is as bright as it can be. @param {number} e */
  isLit(e) {
    return !this.lit || e >= this.first.idle || !!this.lit[this.name[e]];
  }

  /** @param {number} e */
  arguments(e) {
    const args = e < this.first.note ? this.args[e] : 0;
    return args ? this.body.arguments[args - 1] : "";
  }

  /** @param {number} uid */
  ofUid(uid) {
    if (!this.uids) {
      this.uids = new Map();
      for (let e = this.first.idle - 1; e >= 0; e--) this.uids.set(this.uid[e], e);
    }
    return this.uids.get(uid) ?? -1;
  }

  /** The idle gap that ends with a GPU event; -1 without one. @param {number} uid */
  gapOf(uid) {
    const at = this.uid.indexOf(uid, this.first.idle);
    return at >= this.first.idle ? at : -1;
  }

  // What an idle gap is due to: the call that is most of it, if known, and the calls of the host over it, the innermost
  // first: those around that call, else around the launch that ends the gap.
  /** @param {number} e */
  overGap(e) {
    const call = this.culprit[e - this.first.idle] - 1,
      launch = this.parent[this.ofUid(this.uid[e])],
      at = call >= 0 ? call : launch;
    return { call, launch, frames: at < 0 ? [] : [...this.above(at).reverse()] };
  }

  /** Whether a call is a frame that only passes on what others do. @param {number} e */
  isPlumbing(e) {
    return this.className(e) === "python" && this.codeOf[this.name[e]] <= PLUMBING;
  }

  /** The calls around an event, the outermost first. @param {number} e */
  above(e) {
    const found = [];
    for (let up = this.parent[e]; up >= 0; up = this.parent[up]) found.push(up);
    return found.reverse();
  }

  /** One past the last call below one of the host. @param {number} e */
  past(e) {
    let at = e + 1;
    while (at < this.first.note && this.depth[at] > this.depth[e]) at++;
    return at;
  }

  /** GPU events that the subtree of a call launches, by launch. @param {number} e */
  launched(e) {
    if (e >= this.first.note) return new Int32Array();
    if (!this.launches) {
      const { gpu, idle } = this.first;
      const of = new Int32Array(this.first.note + 1);
      for (let k = gpu; k < idle; k++) if (this.parent[k] >= 0) of[this.parent[k] + 1]++;
      for (let i = 0; i < of.length - 1; i++) of[i + 1] += of[i];
      const next = of.slice(),
        list = new Int32Array(of[of.length - 1]);
      for (let k = gpu; k < idle; k++) if (this.parent[k] >= 0) list[next[this.parent[k]]++] = k;
      this.launches = { of, list };
    }
    const { of, list } = this.launches;
    return list.subarray(of[e], of[this.past(e)]);
  }

  // The call of the host that is nearest to a moment, of several the innermost; -1 without any.
  /** @param {number} time */
  nearestCall(time) {
    let best = -1,
      bestFar = Infinity;
    for (let e = 0; e < this.first.note; e++) {
      const far = Math.max(this.start[e] - time, time - this.end(e), 0);
      if (far < bestFar || (far === bestFar && this.dur[e] <= this.dur[best])) [best, bestFar] = [e, far];
    }
    return best;
  }

  /** @param {number} e */
  laneOf(e) {
    return this.lanes[this.lane[e]];
  }

  // What a class is called: the categories of GPU work that it stands for, else its own name.
  /** @param {string} one */
  categories(one) {
    return this.body.categories[one] ?? one;
  }

  // The classes of the GPU's work.
  gpuClasses() {
    return this.classesOf(this.name.subarray(this.first.gpu, this.first.idle));
  }

  /** @param {Numbers} names */
  classesOf(names) {
    return new Set(Array.from(new Set(names), (name) => this.body.classes[this.classOf[name]]));
  }

  // For each name that of its class, where it is that of a module; classes join the names. For others the name itself.
  moduleClasses() {
    const { names, classes } = this.body,
      module = classes.indexOf("module"),
      before = names.length;
    /** @type {Map<string, number>} */
    const known = new Map();
    const found = Int32Array.from(names, (_, name) => {
      if (this.classOf[name] !== module) return name;
      const text = this.shortName(name).replace(/_\d+$/, ""),
        number = known.get(text) ?? before + known.size;
      known.set(text, number);
      return number;
    });
    for (const text of known.keys()) names.push(text);
    this.classOf = Int32Array.from(names, (_, name) => (name < before ? this.classOf[name] : module));
    return found;
  }

  // The causes of idle time, those with most of it first.
  idleCauses() {
    const ns = new Float64Array(this.body.causes.length);
    for (let e = this.first.idle; e < this.n; e++) ns[this.name[e]] += this.dur[e];
    const causes = [...ns.keys()].filter((cause) => ns[cause] > 0).sort((a, b) => ns[b] - ns[a]);
    return causes.map((cause) => this.body.causes[cause]);
  }

  // The colours of the GPU's work, of some classes, and of causes of idle time.
  /** @param {Set<string>} used @param {Cause[]} [causes] */
  legend(used, causes = []) {
    return el(
      "span.legend",
      this.body.classes
        .slice(0, GPU_CLASSES)
        .filter((one) => used.has(one))
        .map((one) => key(one, this.categories(one))),
      causes.map((one, k) => key(`idle-${one.class}`, `${k ? "" : "idle: "}${one.name}`)),
    );
  }

  // What all colours mean, behind a button.
  allColors() {
    const { classes, causes } = this.body,
      idle = new Map(causes.map((one) => [one.class, one.class === "unknown" ? "unknown, and others" : one.name]));
    return el(
      "details.columns.colors",
      el("summary", "Colours"),
      el(
        "div.choices",
        el("b", "GPU"),
        classes
          .slice(0, GPU_CLASSES)
          .filter((one) => one in this.body.categories)
          .map((one) => key(one, this.categories(one))),
        el("b", "host"),
        ["module", "op", "python", "call", "annotation", "step"].map((one) =>
          key(one, { python: "Python", call: "call of the runtime" }[one] ?? one),
        ),
        el("b", "idle: what the host did"),
        [...idle].map(([of, text]) => key(`idle-${of}`, text)),
      ),
    );
  }

  /** A moment, as Perfetto UI counts it. @param {number} ns */
  moment(ns) {
    return Show.moment(ns + this.body.lead_ns);
  }

  /** @param {number} ns */
  momentMs(ns) {
    return (ns + this.body.lead_ns) / 1e6;
  }

  /** What hovering says. @param {number} e @returns {Lines} */
  says(e) {
    /** @type {Lines} */
    const lines = [
      ["name", this.text(e)],
      ["", `${Show.span(this.dur[e])}, from ${this.moment(this.start[e])}`],
    ];
    const lane = this.laneOf(e).title;
    if (e >= this.first.idle) {
      const { meaning } = this.body.causes[this.name[e]],
        rest = this.rest[e - this.first.idle];
      if (rest) lines.push(["", `${Show.span(this.dur[e] - rest)} of it for this cause, the rest for others`]);
      return [...lines, ["dim", meaning], ["dim", `${lane}; ends with uid ${this.uid[e]}`]];
    }
    if (this.arguments(e)) lines.push(["", this.arguments(e)]);
    lines.push(["dim", `${this.categories(this.className(e))}, ${lane}, uid ${this.uid[e]}`]);
    if (e < this.first.gpu) return [...lines, ...this.place(e), ...this.saysLaunched(e)];
    const op = this.above(e).findLast((one) => this.className(one) === "op");
    if (op !== undefined) lines.push(["", `of ${this.text(op)} ${this.arguments(op)}`]);
    const launch = this.parent[e],
      after = launch < 0 ? "" : `begins ${Show.span(this.start[e] - this.start[launch])} after its launch`;
    return [...lines, ...this.place(e), ["dim", after || "no launch in the trace"]];
  }

  /** @param {number} e @returns {Lines} */
  saysLaunched(e) {
    const launched = this.launched(e),
      sum = launched.reduce((ns, one) => ns + this.dur[one], 0);
    if (!launched.length) return [];
    const events = launched.length === 1 ? "GPU event" : "GPU events";
    return [["", `launches ${Show.count(launched.length)} ${events}, ${Show.span(sum)}`]];
  }

  /** Where in the program an event is called: line of Python and path of modules. @param {number} e */
  place(e) {
    const above = this.above(e),
      frames = above.filter((one) => this.className(one) === "python" && this.text(one).includes("): "));
    /** @type {Lines} */
    const found = [];
    // The innermost line of the user or of a model: the one that can be changed.
    /** @param {number} code */
    const innermost = (code) => frames.findLast((one) => this.codeOf[this.name[one]] === code);
    const line = innermost(USER) ?? innermost(LIBRARY) ?? frames.at(-1);
    if (line !== undefined && !["python", "module"].includes(this.className(e)))
      found.push(["", `at ${this.short(line)}`]);
    if (!frames.length && this.hasPython && [e, ...above].some((one) => this.text(one).startsWith("autograd::engine")))
      found.push(["dim", "no line recorded: launched by autograd"]);
    return [...found, ...this.modulesAround(above)];
  }

  /** The path of modules among calls. @param {number[]} calls @returns {Lines} */
  modulesAround(calls) {
    const modules = calls.filter((one) => this.className(one) === "module").map((one) => this.short(one));
    return modules.length ? [["dim", Show.cut(modules.join(" › "), 400)]] : [];
  }

  // Whether the trace has frames of Python at all.
  get hasPython() {
    return this.classOf.includes(this.body.classes.indexOf("python"));
  }

  // Light up names, for each 0 or 1; null for all. Gives the events that have one of them, by start.
  /** @param {Uint8Array | null} lit */
  light(lit) {
    const found = [];
    this.lit = lit;
    if (lit) for (let e = 0; e < this.first.idle; e++) if (lit[this.name[e]]) found.push(e);
    return found.sort((a, b) => this.start[a] - this.start[b]);
  }
}
