// @ts-check
// The events of the trace, and what is asked of them.
class Trace {
  constructor(body, { events, levels, columns }) {
    Object.assign(this, events);
    this.levels = levels;
    this.columns = columns;
    this.body = body;
    this.classOf = columns["name.class"];
    this.lit = null;
  }

  part(e) {
    return ["host", "note", "gpu", "idle"].find((part, k, all) => e < (k < 3 ? this.first[all[k + 1]] : this.n));
  }

  end(e) {
    return this.start[e] + this.dur[e];
  }

  text(e) {
    return e >= this.first.idle ? `idle: ${this.body.causes[this.name[e]].name}` : this.body.names[this.name[e]];
  }

  short(e) {
    return e >= this.first.idle ? this.body.causes[this.name[e]].name : this.shortName(this.name[e]);
  }

  shortName(name) {
    return this.body.shorts[name] ?? this.body.names[name];
  }

  // Position among the colours: classes of names, then causes of idle time.
  color(e) {
    return e >= this.first.idle ? this.body.classes.length + this.name[e] : this.classOf[this.name[e]];
  }

  className(e) {
    return e >= this.first.idle ? "idle" : this.body.classes[this.classOf[this.name[e]]];
  }

  arguments(e) {
    const args = e < this.first.note ? this.args[e] : 0;
    return args ? this.body.arguments[args - 1] : "";
  }

  ofUid(uid) {
    if (!this.uids) {
      this.uids = new Map();
      for (let e = this.first.idle - 1; e >= 0; e--) this.uids.set(this.uid[e], e);
    }
    return this.uids.get(uid) ?? -1;
  }

  above(e) {
    const found = [];
    for (let up = this.parent[e]; up >= 0; up = this.parent[up]) found.push(up);
    return found.reverse();
  }

  // One past the last call below one of the host.
  past(e) {
    let at = e + 1;
    const end = this.first.note,
      depth = this.depth[e];
    while (at < end && this.depth[at] > depth) at++;
    return at;
  }

  // GPU events that the subtree of a call launches, by launch.
  launched(e) {
    if (e >= this.first.note) return [];
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
    return this.launches.list.subarray(this.launches.of[e], this.launches.of[this.past(e)]);
  }

  // The call of the host that is nearest to a moment, of several the innermost; -1 without any.
  nearestCall(time) {
    let best = -1,
      bestFar = Infinity;
    for (let e = 0; e < this.first.note; e++) {
      const far = Math.max(this.start[e] - time, time - this.end(e), 0);
      if (far < bestFar || (far === bestFar && this.dur[e] <= this.dur[best])) [best, bestFar] = [e, far];
    }
    return best;
  }

  laneOf(e) {
    return this.lanes[this.lane[e]];
  }

  // The classes of the GPU's work.
  gpuClasses() {
    const used = new Set();
    for (let e = this.first.gpu; e < this.first.idle; e++) used.add(this.className(e));
    return used;
  }

  classesOf(names) {
    return new Set(Array.from(new Set(names), (name) => this.body.classes[this.classOf[name]]));
  }

  // For each name that of its class, where it is that of a module; classes join the names. For others the name itself.
  moduleClasses() {
    const { names, classes } = this.body,
      module = classes.indexOf("module"),
      known = new Map(),
      before = names.length;
    const found = Int32Array.from(names, (_, name) => {
      if (this.classOf[name] !== module) return name;
      const text = this.shortName(name).replace(/_\d+$/, "");
      if (!known.has(text)) known.set(text, before + known.size);
      return known.get(text);
    });
    for (const text of known.keys()) names.push(text);
    this.classOf = Int32Array.from(names, (_, name) => (name < before ? this.classOf[name] : module));
    return found;
  }

  // The causes of idle time, those with most of it first.
  idleCauses() {
    const ns = new Map();
    for (let e = this.first.idle; e < this.n; e++) ns.set(this.name[e], (ns.get(this.name[e]) ?? 0) + this.dur[e]);
    return [...ns.keys()].sort((a, b) => ns.get(b) - ns.get(a)).map((cause) => this.body.causes[cause]);
  }

  // The colours of the GPU's work, of some classes, and of causes of idle time.
  legend(used, causes = []) {
    const key = (of, text) => el("span", { class: "key" }, el("i", { class: `swatch c-${of}` }), text);
    return el(
      "span",
      { class: "legend" },
      ...this.body.classes
        .slice(0, 9)
        .filter((one) => used.has(one))
        .map((one) => key(one, one)),
      ...causes.map((one, k) => key(`idle-${one.class}`, `${k ? "" : "idle: "}${one.name}`)),
    );
  }

  shown(ns) {
    return Show.moment(ns + this.body.lead_ns);
  }

  // What hovering says, as [class, text].
  says(e) {
    const lines = [
      ["name", this.text(e)],
      ["", `${Show.span(this.dur[e])}, from ${this.shown(this.start[e])}`],
    ];
    const lane = this.laneOf(e).title;
    if (e >= this.first.idle) {
      lines.push(["dim", this.body.causes[this.name[e]].meaning], ["dim", `${lane}; ends with uid ${this.uid[e]}`]);
      return lines;
    }
    if (this.arguments(e)) lines.push(["", this.arguments(e)]);
    lines.push(["dim", `${this.className(e)}, ${lane}, uid ${this.uid[e]}`]);
    if (e >= this.first.gpu) {
      const op = this.above(e).findLast((one) => this.className(one) === "op");
      if (op >= 0) lines.push(["", `of ${this.text(op)} ${this.arguments(op)}`]);
      lines.push(...this.place(e));
      if (this.parent[e] < 0) lines.push(["dim", "no launch in the trace"]);
      else lines.push(["dim", `begins ${Show.span(this.start[e] - this.start[this.parent[e]])} after its launch`]);
    } else {
      lines.push(...this.place(e));
      const launched = this.launched(e);
      if (launched.length) {
        let sum = 0;
        for (const k of launched) sum += this.dur[k];
        const events = launched.length === 1 ? "GPU event" : "GPU events";
        lines.push(["", `launches ${Show.count(launched.length)} ${events}, ${Show.span(sum)}`]);
      }
    }
    return lines;
  }

  // Where in the program an event is called: line of Python and path of modules, as [class, text].
  place(e) {
    const above = this.above(e),
      found = [];
    const frames = above.filter((one) => this.className(one) === "python" && this.text(one).includes("): "));
    // The innermost line that is not PyTorch's own: the one that can be changed.
    const line = frames.findLast((one) => !/(^|\/)torch\//.test(this.text(one))) ?? frames.at(-1);
    if (line >= 0 && !["python", "module"].includes(this.className(e))) found.push(["", `at ${this.short(line)}`]);
    if (!frames.length && this.hasPython && [e, ...above].some((one) => this.text(one).startsWith("autograd::engine")))
      found.push(["dim", "no line recorded: launched by autograd"]);
    const modules = above.filter((one) => this.className(one) === "module").map((one) => this.short(one));
    if (modules.length) found.push(["dim", Show.cut(modules.join(" › "), 200)]);
    return found;
  }

  // Whether the trace has frames of Python at all.
  get hasPython() {
    const python = this.body.classes.indexOf("python");
    return this.classOf.includes(python);
  }

  // Light up names, for each 0 or 1; null for all. Gives the events that have one of them, by start.
  light(lit) {
    this.lit = lit;
    if (!lit) return [];
    const found = [];
    for (let e = 0; e < this.first.idle; e++) if (this.lit[this.name[e]]) found.push(e);
    return found.sort((a, b) => this.start[a] - this.start[b]);
  }
}
