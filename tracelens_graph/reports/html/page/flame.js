// @ts-check
// The flame graph of GPU time, drawn from the top down.
class Flame {
  static ROW = 19;
  // Rows of a picture: browsers have no higher canvas. A click shows what is below.
  static DEEPEST = 600;
  static PASSES = ["forward", "backward", "optimizer", "none"];

  constructor(app, title = "Flame graph of GPU time") {
    this.app = app;
    this.title = title;
    this.root = el("section", { class: "flame", id: "view-flame", role: "tabpanel", "aria-label": title });
    this.checks = {};
  }

  start(trace) {
    this.trace = trace;
    const { flame } = trace.body;
    if (flame.views.modules) {
      Stacks.merge(trace.columns, "modules", "classes", trace.moduleClasses());
      const { modules, ...others } = flame.views;
      flame.views = { modules, classes: "class of module, op, kernel", ...others };
    }
    this.zoomed = -1;
    /** @type {Record<string, any>} */
    this.options = { view: Object.keys(flame.views)[0], step: 0, byTime: false, isInverted: false, collapsed: true };
    const views = el(
      "select",
      { "aria-label": "Frames", onchange: () => this.set({ view: views.value }) },
      ...Object.entries(flame.views).map(([name, says]) => el("option", { value: name }, says)),
    );
    const step = el(
      "select",
      { "aria-label": "Step", onchange: () => this.set({ step: Number(step.value) }) },
      el("option", { value: 0 }, "all steps"),
      ...flame.steps.map((name, k) => el("option", { value: k + 1 }, name)),
    );
    Object.assign(this, { views, step });
    this.stage(
      Object.keys(flame.views).length > 1 ? views : null,
      flame.steps.length ? step : null,
      this.check("byTime", "by time"),
      this.check("isInverted", "inverted"),
      this.check("collapsed", "collapse chains"),
    );
    const used = Object.keys(flame.views).map((view) => trace.classesOf(trace.columns[`${view}.name`]));
    this.root.querySelector(".bar").append(trace.legend(new Set(used.flatMap((one) => [...one]))));
    this.compute();
  }

  // A box that sets an option.
  check(name, label) {
    this.checks[name] = el("input", {
      type: "checkbox",
      onchange: (event) => this.set({ [name]: event.target.checked }),
    });
    return el("label", {}, this.checks[name], label);
  }

  // What is drawn on, below the controls, and the table that says the same.
  stage(...controls) {
    this.crumbs = el("nav", { class: "crumbs", "aria-label": "Zoomed to" });
    this.matched = el("output", { class: "matched" });
    this.canvas = el("canvas", {
      tabIndex: 0,
      role: "img",
      "aria-label": `${this.title}. The table below it says the same.`,
    });
    this.box = el("div", { class: "frames" }, this.canvas);
    this.list = el("div", { class: "twin" });
    this.none = el("p", { class: "dim", hidden: true }, "No GPU time was recorded here, so there are no frames.");
    this.root.append(
      el("div", { class: "bar" }, ...controls, this.matched),
      this.crumbs,
      this.none,
      this.box,
      this.list,
    );
    this.grid = new Grid(this.list, "Frames");
    this.canvas.addEventListener("pointermove", (event) => this.hover(event));
    this.canvas.addEventListener("pointerleave", () => Tip.hide());
    this.canvas.addEventListener("click", (event) => {
      const box = this.at(event.offsetX, event.offsetY);
      if (!box) return;
      this.chosen(box.chain[0]);
      this.zoom(box.chain[0]);
    });
    new ResizeObserver(() => this.draw()).observe(this.box);
  }

  set(options) {
    Object.assign(this.options, options);
    this.zoomed = -1;
    this.compute();
  }

  compute() {
    const { view, step, isInverted } = this.options;
    this.made = Stacks.of(this.trace.columns, view, step, isInverted);
    this.views.value = view;
    this.step.value = String(step);
    this.refresh();
  }

  refresh() {
    this.marked = -1;
    for (const [name, box] of Object.entries(this.checks)) box.checked = this.options[name];
    this.none.hidden = [...this.made.kids(-1)].some((frame) => this.made.total[frame]);
    this.box.hidden = this.list.hidden = !this.none.hidden;
    this.draw();
    this.listFrames();
  }

  // Select the node that stands for a frame: the longest GPU event in it.
  chosen(frame) {
    if (this.made.uid[frame] >= 0) this.app.selectUid(this.made.uid[frame], "flame");
  }

  zoom(frame) {
    this.zoomed = frame === this.zoomed ? this.made.parent[frame] : frame;
    this.draw();
    this.listFrames();
  }

  path(frame) {
    const found = [];
    for (let at = frame; at >= 0; at = this.made.parent[at]) found.unshift(at);
    return found;
  }

  label(chain) {
    return chain.map((frame) => this.trace.shortName(this.made.name[frame])).join(" › ");
  }

  draw() {
    const width = this.box.clientWidth;
    if (!width || !this.made) return;
    const ratio = window.devicePixelRatio || 1,
      { made, options, trace } = this;
    this.boxes = Stacks.boxes(made, this.zoomed, {
      ...options,
      least: 0.5 / width,
      isApart: (frame) => this.isApart(frame),
    });
    const rows = Math.min(
      this.boxes.reduce((most, box) => Math.max(most, box.row + 1), 1),
      Flame.DEEPEST,
    );
    const height = rows * Flame.ROW;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    const context = this.canvas.getContext("2d", { alpha: false });
    const palette = this.palette();
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = palette.backCss;
    context.fillRect(0, 0, width, height);
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    this.letter = context.measureText("kernel_sm90_gemm_aten::mm_Linear_0").width / 34;
    this.width = width;
    for (const box of this.boxes) {
      const isLit = !trace.lit || box.chain.some((frame) => trace.lit[made.name[frame]]);
      const x = box.x * width,
        y = box.row * Flame.ROW,
        size = box.width * width;
      context.globalAlpha = isLit ? 1 : 0.2;
      const ink = this.fill(context, palette, box, x, y, Math.max(size - (size > 3 ? 1 : 0), 0.5), Flame.ROW - 1);
      if (size > 30) {
        context.save();
        context.beginPath();
        context.rect(x, y, size - 5, Flame.ROW);
        context.clip();
        context.fillStyle = isLit ? ink : palette.textCss;
        context.fillText(this.fitted(context, box.chain, size - 10), x + 4, y + Flame.ROW / 2);
        context.restore();
      }
      context.globalAlpha = 1;
      if (box.chain.includes(this.marked)) {
        context.strokeStyle = palette.textCss;
        context.lineWidth = 2;
        context.strokeRect(x + 1, y + 1, Math.max(size - 2, 2), Flame.ROW - 3);
      }
    }
    this.drawCrumbs();
    this.tellMatched();
  }

  palette() {
    return new Palette(this.trace.body.classes, []);
  }

  // Whether a frame stays apart from those below it.
  isApart(frame) {
    const { trace } = this;
    return Flame.PASSES.includes(trace.body.classes[trace.classOf[this.made.name[frame]]]);
  }

  // Draw a box; the colour of its label.
  fill(context, palette, box, ...place) {
    const of = this.trace.classOf[this.made.name[this.telling(box.chain)]];
    context.fillStyle = palette.css[of];
    context.fillRect(...place);
    return palette.ink[of];
  }

  tellMatched() {
    const { made, trace } = this;
    const total = trace.lit ? Stacks.matched(made, trace.lit) : 0;
    const says = (ns, of) => `${Show.span(ns)} (${Show.percent(ns, of)})`;
    const here = this.zoomed < 0 ? 0 : Stacks.matched(made, trace.lit ?? [], this.zoomed);
    const inFrame = this.zoomed < 0 ? "" : `${says(here, made.total[this.zoomed])} in this frame, in all `;
    this.matched.textContent = trace.lit ? `matched: ${inFrame}${says(total, made.sum)}` : "";
    /** @type {number | number[]} */
    this.matchedNs = total;
  }

  // The frame of a chain that tells most: what is nearest to the kernel.
  telling(chain) {
    return this.options.isInverted ? chain[0] : chain[chain.length - 1];
  }

  fitted(context, chain, room) {
    let letters = Math.ceil(room / this.letter) + 2,
      text = "";
    do text = this.cut(chain, letters--);
    while (text && context.measureText(text).width > room);
    return text;
  }

  cut(chain, letters) {
    const whole = this.label(chain);
    if (whole.length <= letters) return whole;
    const told = this.trace.shortName(this.made.name[this.telling(chain)]);
    if (chain.length === 1) return Show.label(told, letters);
    // The name of a kernel may be cut, those of what it is in may not.
    if (!this.options.isInverted && whole.length - told.length <= letters * 0.6) return Show.cut(whole, letters);
    const marked = this.options.isInverted ? `${told}…` : `…${told}`;
    return marked.length <= letters ? marked : Show.label(told, letters);
  }

  drawCrumbs() {
    const { made } = this;
    const crumb = (frame, text) =>
      el(
        "button",
        {
          type: "button",
          onclick: () => {
            this.zoomed = frame;
            this.draw();
            this.listFrames();
          },
        },
        text,
      );
    this.crumbs.replaceChildren(
      crumb(-1, this.wholeSays()),
      ...this.path(this.zoomed).flatMap((frame) => [
        el("span", {}, "›"),
        crumb(frame, `${Show.cut(this.trace.shortName(made.name[frame]), 48)} ${this.shareSays(frame)}`),
      ]),
    );
  }

  wholeSays() {
    return `GPU time ${Show.span(this.made.sum)}`;
  }

  shareSays(frame) {
    return Show.percent(this.made.total[frame], this.made.sum);
  }

  at(x, y) {
    const row = Math.floor(y / Flame.ROW),
      share = x / this.width;
    return this.boxes.find(
      (box) => box.row === row && share >= box.x && share < box.x + Math.max(box.width, 1 / this.width),
    );
  }

  hover(event) {
    const box = this.at(event.offsetX, event.offsetY);
    this.canvas.classList.toggle("over", !!box);
    if (!box) return Tip.hide();
    Tip.at(event, this.says(box));
  }

  says(box) {
    const { made } = this,
      frame = box.chain[0];
    return [
      ...Flame.few(box.chain).map((one) => ["name", one < 0 ? "…" : this.trace.body.names[made.name[one]]]),
      ["", `${Show.span(made.total[frame])}, ${Show.percent(made.total[frame], made.sum)} of the GPU time`],
      [
        "dim",
        `${Show.count(made.count[frame])} GPU events; own ${Show.span(box.chain.reduce((sum, one) => sum + made.own[one], 0))}`,
      ],
    ];
  }

  // Both ends of a long chain, with -1 for what is left out.
  static few(chain) {
    return chain.length > 9 ? [...chain.slice(0, 3), -1, ...chain.slice(-5)] : chain;
  }

  // The frames below the one that is zoomed to, as a table.
  listFrames() {
    const { made } = this,
      inside = [];
    const base = this.path(this.zoomed).length;
    const walk = [[this.zoomed, base]];
    if (this.zoomed >= 0) inside.push([this.zoomed, base - 1]);
    while (walk.length && inside.length < 20000) {
      const [frame, depth] = walk.pop();
      for (const kid of made.kids(frame)) {
        if (made.total[kid] <= 0) continue;
        inside.push([kid, depth]);
        walk.push([kid, depth + 1]);
      }
    }
    inside.sort((a, b) => made.total[b[0]] - made.total[a[0]]);
    this.grid.show({
      columns: this.frameColumns(inside),
      rows: inside.length,
      notes: [],
      click: (row) => {
        this.zoomed = inside[row][0];
        this.chosen(inside[row][0]);
        this.draw();
        this.listFrames();
      },
    });
  }

  // inside: [frame, depth] each.
  frameColumns(inside) {
    const { made, trace } = this,
      called = (frame) => trace.shortName(made.name[frame]);
    return [
      { heading: "frame", kind: "text", cells: inside.map(([frame]) => trace.body.names[made.name[frame]]) },
      { heading: "total", unit: "ms", kind: "number", digits: 3, cells: inside.map(([one]) => made.total[one] / 1e6) },
      { heading: "own", unit: "ms", kind: "number", digits: 3, cells: inside.map(([one]) => made.own[one] / 1e6) },
      {
        heading: "%",
        kind: "number",
        digits: 2,
        cells: inside.map(([frame]) => (100 * made.total[frame]) / (made.sum || 1)),
      },
      { heading: "GPU events", kind: "number", digits: 0, cells: inside.map(([frame]) => made.count[frame]) },
      { heading: "longest", kind: "uid", cells: inside.map(([frame]) => made.uid[frame]) },
      { heading: "in", kind: "text", cells: inside.map(([frame]) => Stacks.around(made, frame, called)) },
      { heading: "depth", kind: "number", digits: 0, shown: false, cells: inside.map(([, depth]) => depth) },
    ];
  }

  // Zoom to the frame of a node, else of the nearest of its callers that has one; where this view has none, in another.
  zoomToNode(e) {
    const { trace } = this,
      views = [...new Set([this.options.view, ...Object.keys(trace.body.flame.views)])];
    for (const node of [e, ...trace.above(e).reverse()]) {
      for (const view of views) {
        if (view !== this.options.view) this.set({ view });
        const frame = this.frameOf(node);
        if (frame < 0) continue;
        this.zoomed = this.withOthers(frame);
        this.marked = frame;
        this.draw();
        this.listFrames();
        return true;
      }
    }
    return false;
  }

  // The nearest frame around one, itself included, that has several others in it: one alone tells nothing.
  withOthers(frame) {
    const { made } = this;
    for (let at = frame; at >= 0; at = made.parent[at]) {
      if ([...made.kids(at)].filter((kid) => made.total[kid]).length > 1) return at;
    }
    return frame;
  }

  // Of the frames with the name of a node that in the most of its callers, of these the widest; -1 for none.
  frameOf(e) {
    const { trace, made } = this,
      name = trace.short(e),
      callers = new Set(trace.above(e).map((one) => trace.short(one)));
    const shared = (frame) => this.path(frame).filter((one) => callers.has(trace.shortName(made.name[one]))).length;
    let best = -1,
      most = -1;
    for (let frame = 0; frame < made.n; frame++) {
      if (trace.shortName(made.name[frame]) !== name || !made.total[frame]) continue;
      const among = shared(frame);
      if (among > most || (among === most && made.total[frame] > made.total[best])) [best, most] = [frame, among];
    }
    return best;
  }
}
