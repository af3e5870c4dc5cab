// @ts-check
// The page of a report: what is selected in all of its views, and the link that says so.
class App extends Views {
  static KEYS = [
    ["w s", "zoom in and out"],
    ["a d, ← →", "to earlier and later"],
    ["↑ ↓", "scroll lanes"],
    ["wheel", "zoom; with shift to earlier and later; over names scroll lanes"],
    ["drag", "move"],
    ["click", "select a node, everywhere"],
    ["double click, f", "zoom to it"],
    [", .", "the event before and behind, on the same lane"],
    ["0", "the whole trace"],
    ["/", "search"],
    ["n N", "next match, the one before"],
    ["p", "zoom to the peak, in the view of memory"],
    ["1, 2, …", "views"],
    ["Esc", "select nothing, search nothing"],
  ];

  static CALLERS = 60;
  // Events among which a search takes longer than a keystroke.
  static MANY = 200_000;

  constructor() {
    super(App.KEYS);
    this.selection = -1;
    this.matches = [];
    this.matching = new Matching();
    const said = this.head.overview;
    const all = {
      overview: () => [new Overview(this, said), "Overview"],
      timeline: () => [new Timeline(this), "Timeline"],
      flame: () => [new Flame(this), "Flame graph"],
      tables: () => [new Tables(this), "Tables"],
      roofline: () => [new Roofline(this), "Roofline"],
      ...(this.head.memory ? { memory: () => [new Memory(this, this.head.memory), "Memory"] } : {}),
    };
    // A page has all views, or those that it names.
    const names = this.head.views ?? Object.keys(all);
    this.begin(said.heading, Object.fromEntries(names.map((name) => [name, all[name]()])));
    // Matches to go through are events; tables have a filter of their own.
    for (const id of ["before", "next"]) byId(id).hidden = !this.timeline;
    byId("search").hidden = !this.timeline && !this.flame;
  }

  async load() {
    const { body, columns } = await this.unpacked();
    if (!this.hasAddress) this.followHere();
    this.drawAll(new Trace(body, columns));
  }

  failed(text) {
    if (this.overview) this.overview.drawn.textContent = text;
    else super.failed(text);
  }

  // In a worker; on this page where it may have none.
  unpackedColumns(planes) {
    const { columns, lanes, call } = this.head,
      work = { planes, columns, lanes, call };
    return new Promise((resolve, reject) => {
      const here = () => Levels.unpack(work).then(resolve, reject);
      try {
        const source = byId("worker").textContent;
        if (!source) return here();
        const worker = new Worker(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
        worker.onmessage = ({ data }) => {
          worker.terminate();
          resolve(data);
        };
        worker.onerror = (event) => {
          event.preventDefault();
          here();
        };
        worker.postMessage(work);
      } catch {
        here();
      }
    });
  }

  shownNow(name) {
    if (name === "timeline") this.timeline.resize();
    if (name === "flame") this.flame.draw();
    if (name === "memory") this.memory.resize();
  }

  // Inside of another page, as a notebook shows it, a page has no address to send.
  get hasAddress() {
    return location.protocol !== "about:";
  }

  get linked() {
    return this.selection >= 0 ? [`uid=${this.trace.uid[this.selection]}`] : [];
  }

  // Show what the address says: `#uid=…`, `#view=…`.
  follow() {
    const asked = new URLSearchParams(location.hash.slice(1));
    // First the view: the link that a selection makes names the one that is shown.
    if (asked.has("view")) this.show(asked.get("view"));
    else if (asked.has("uid")) this.show("timeline");
    if (!asked.has("uid")) return;
    this.selectUid(Number(asked.get("uid")), "link");
    if (this.shown === "flame" && this.selection >= 0) this.flame.zoomToNode(this.selection);
  }

  // Where a link would leave for the page around, it is followed here.
  followHere() {
    addEventListener("click", (event) => {
      const link = /** @type {Element} */ (event.target).closest('a[href^="#uid="]');
      if (!link) return;
      event.preventDefault();
      this.selectUid(Number(link.getAttribute("href").slice("#uid=".length)), "link");
    });
  }

  selectUid(uid, from) {
    const e = this.trace.ofUid(uid);
    if (e >= 0) this.select(e, from);
    else this.say(this.timeline ? `uid ${uid} is not drawn on this page` : `uid ${uid}`);
  }

  select(e, from) {
    this.selection = e >= this.trace.first.idle ? this.trace.ofUid(this.trace.uid[e]) : e;
    if (this.selection >= 0 && from !== "timeline") this.timeline.reveal(this.selection);
    if (
      from === "link" &&
      this.selection >= 0 &&
      this.trace.dur[this.selection] < (this.timeline.view.to - this.timeline.view.from) / 200
    ) {
      const wide = Math.max(this.trace.dur[this.selection] * 12, 1000);
      this.timeline.show(this.trace.start[this.selection] - wide, this.trace.end(this.selection) + wide);
    }
    this.details();
    this.timeline?.ask();
    this.memory?.draw();
    this.link();
  }

  details() {
    const e = this.selection,
      { trace } = this,
      box = this.selectedBox(e >= 0);
    if (e < 0) return;
    const node = (one) =>
      el("a", { href: `#uid=${trace.uid[one]}`, title: trace.text(one) }, Show.cut(trace.short(one), 70));
    const above = trace.above(e),
      launched = [...trace.launched(e)];
    const [name, ...lines] = trace.says(e);
    box.replaceChildren(
      el(
        "div",
        { class: "what" },
        el("b", {}, name[1]),
        ...lines.map(([kind, text]) => el("span", { class: kind }, text)),
      ),
      el(
        "div",
        { class: "around" },
        above.length
          ? el(
              "div",
              { class: "path" },
              "in ",
              ...above
                .reverse()
                .slice(0, App.CALLERS)
                .flatMap((one, k) => (k ? [" ‹ ", node(one)] : [node(one)])),
              above.length > App.CALLERS ? ` and ${Show.count(above.length - App.CALLERS)} more` : null,
            )
          : null,
        launched.length && e < trace.first.gpu
          ? el(
              "div",
              { class: "path" },
              "launches ",
              ...launched.slice(0, 12).flatMap((one, k) => (k ? [", ", node(one)] : [node(one)])),
              launched.length > 12 ? ` and ${Show.count(launched.length - 12)} more` : null,
            )
          : null,
      ),
      el(
        "div",
        { class: "acts" },
        actButton("Timeline", () => {
          this.go("timeline");
          this.timeline.reveal(e);
        }),
        actButton("Zoom", () => {
          this.go("timeline");
          this.timeline.zoomTo(e);
        }),
        this.flame
          ? actButton("Flame graph", () => {
              this.go("flame");
              if (!this.flame.zoomToNode(e)) this.say("no frame of this node");
            })
          : null,
        actButton("Same name", () => this.search(trace.text(e), true)),
        this.hasAddress ? actButton("Copy link", (event) => copyText(location.href, event.currentTarget)) : null,
        actButton("✕", () => this.select(-1, "key")),
      ),
    );
  }

  search(text, isExact = false) {
    const box = byId("search");
    box.value = isExact ? Matching.plain(text) : text;
    this.behind = 0;
    if (!box.value) {
      this.matching.stop();
      this.found(null, "");
      return;
    }
    this.matching.find(box.value, this.trace.body.names, (lit, note) => this.found(lit, note));
    if (this.matching.isBusy) this.say("searching …");
  }

  // What a search found: which names, and what is to be said of it.
  found(lit, note) {
    this.matches = this.trace.light(lit);
    this.place = -1;
    let gpu = 0;
    for (const e of this.matches) if (e >= this.trace.first.gpu) gpu += this.trace.dur[e];
    this.gpuMatched = gpu;
    this.say(
      lit && this.timeline
        ? `${Show.count(this.matches.length)} found${gpu ? `, ${Show.span(gpu)} of GPU` : ""}${note && `, ${note}`}`
        : note,
    );
    this.timeline?.ask();
    if (this.shown === "flame") this.flame.draw();
    if (this.behind) this.next(this.behind);
    this.behind = 0;
  }

  next(by) {
    // What is asked before a search has ended comes behind it.
    if (this.matching.isBusy) this.behind = by;
    if (this.matching.isBusy || !this.matches.length) return;
    if (this.shown !== "timeline") this.go("timeline");
    if (this.place < 0 && by > 0) {
      const { from } = this.timeline.view;
      this.place = this.matches.findIndex((e) => this.trace.start[e] >= from) - 1;
    }
    this.place = (this.place + by + this.matches.length) % this.matches.length;
    this.select(this.matches[this.place], "search");
    this.say(`${Show.count(this.place + 1)} of ${Show.count(this.matches.length)}`);
  }

  recolor() {
    this.timeline?.recolor();
    this.flame?.draw();
    this.memory?.recolor();
  }

  // Among many events a search waits for the end of a word.
  get searchDelay() {
    return this.trace.n < App.MANY ? 0 : 200;
  }

  get grids() {
    return [this.tables?.grid, this.flame?.grid, this.memory?.grid];
  }

  // What is printed is drawn at once: there is no next frame before.
  print(isPrinted) {
    super.print(isPrinted);
    if (this.isReady && this.shown === "timeline") this.timeline.draw();
  }

  unselect() {
    this.select(-1, "key");
  }

  viewKey(key) {
    return ["timeline", "memory"].includes(this.shown) && this[this.shown].key(key);
  }
}

new App().run();
