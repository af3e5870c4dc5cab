// @ts-check
// What every page has: views behind tabs, light and dark, keys, search, printing, and an address that says what is shown.
class Views {
  // keys: [key, what it does], for the list of keys.
  constructor(keys) {
    this.head = JSON.parse(byId("head").textContent);
    this.keys = keys;
    this.system = matchMedia("(prefers-color-scheme: dark)");
    this.chosen = "";
    this.theme(this.chosen);
  }

  // views: {name: [view, title]}; the first one is shown.
  begin(heading, views) {
    byId("title").textContent = heading;
    byId("title").title = heading;
    this.views = views;
    for (const [name, [view, title]] of Object.entries(views)) {
      byId("main").append(view.root);
      this[name] = view;
      byId("views").append(
        el(
          "button",
          {
            type: "button",
            role: "tab",
            id: `tab-${name}`,
            "aria-controls": `view-${name}`,
            onclick: () => this.go(name),
          },
          title,
        ),
      );
    }
    this.listen();
    this.show(Object.keys(views)[0]);
  }

  run() {
    window.tracelensGraph = this;
    this.load().catch((error) => {
      this.failed(`The page could not be unpacked: ${error.message}`);
      document.documentElement.dataset.ready = "failed";
    });
  }

  failed(text) {
    this.say(text);
  }

  // Steps through what a search found, which is in `matches`, from the one that is selected.
  nextMatch(by, isBusy, selected, select, what) {
    // What is asked before a search has ended comes behind it.
    if (isBusy) this.behind = by;
    const { length } = this.matches,
      at = this.matches.indexOf(selected);
    if (isBusy || !length) return;
    const to = at < 0 ? (by > 0 ? 0 : length - 1) : (at + by + length) % length;
    select(this.matches[to]);
    this.say(`${Show.count(to + 1)} of ${Show.count(length)} ${what}`);
  }

  // The box of what is selected, shown or not.
  selectedBox(isShown) {
    const box = byId("selected");
    box.hidden = !isShown;
    document.body.classList.toggle("has-selection", isShown);
    return box;
  }

  get isReady() {
    return !!this.trace;
  }

  // Milliseconds from the last key to a search.
  get searchDelay() {
    return 0;
  }

  // What the file holds packed.
  async unpacked() {
    const text = (id) => byId(id).textContent;
    const [body, columns] = await Promise.all([Planes.inflate(text("body")), this.unpackedColumns(text("planes"))]);
    return { body: JSON.parse(new TextDecoder().decode(body)), columns };
  }

  /** @returns {Promise<any>} */
  async unpackedColumns(planes) {
    return Planes.columns(this.head.columns, await Planes.inflate(planes));
  }

  // All views draw the trace, and what the address names is shown.
  drawAll(trace) {
    this.trace = trace;
    for (const [view] of Object.values(this.views)) view.start(trace);
    this.follow();
    document.documentElement.dataset.ready = "yes";
    this.readyMs = performance.now();
  }

  show(name) {
    if (!Object.hasOwn(this.views, name)) return;
    this.shown = name;
    Tip.hide();
    for (const [one, [view]] of Object.entries(this.views)) {
      view.root.hidden = one !== name;
      const tab = byId(`tab-${one}`);
      tab.setAttribute("aria-selected", String(one === name));
      tab.tabIndex = one === name ? 0 : -1;
    }
    if (this.isReady) this.shownNow(name);
  }

  go(name) {
    this.show(name);
    this.link();
  }

  link() {
    try {
      history.replaceState(null, "", `#${[`view=${this.shown}`, ...this.linked].join("&")}`);
    } catch {
      // A page inside of another one may have no address of its own.
    }
  }

  say(text) {
    byId("found").textContent = text;
  }

  // By name; without one, that of the system.
  theme(name) {
    document.documentElement.dataset.theme = name || (this.system.matches ? "dark" : "light");
    if (this.isReady) this.recolor();
  }

  listen() {
    const search = byId("search"),
      on = (id, act) => byId(id).addEventListener("click", act);
    let typing = 0;
    const run = () => {
      clearTimeout(typing);
      typing = 0;
      this.search(search.value);
    };
    search.addEventListener("input", () => {
      if (!this.isReady) return;
      clearTimeout(typing);
      if (!this.searchDelay) run();
      else typing = setTimeout(run, this.searchDelay);
    });
    search.addEventListener("keydown", (event) => {
      if (event.key === "Enter") {
        if (!this.isReady) return;
        if (typing) run();
        this.next(event.shiftKey ? -1 : 1);
        // What is typed next is a key again: `n` goes on, and so does Enter.
        search.blur();
      }
      if (event.key === "Escape") {
        this.search("");
        search.blur();
      }
      event.stopPropagation();
    });
    on("next", () => this.next(1));
    on("before", () => this.next(-1));
    on("theme", () => {
      this.chosen = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
      this.theme(this.chosen);
    });
    this.system.addEventListener("change", () => this.theme(this.isPrinted ? "light" : this.chosen));
    const keys = byId("keys");
    keys.append(
      el("h2", {}, "Keys"),
      el("dl", {}, ...this.keys.flatMap(([key, says]) => [el("dt", {}, key), el("dd", {}, says)])),
      el("button", { type: "button", onclick: () => keys.close() }, "Close"),
    );
    on("help", () => keys.showModal());
    addEventListener("hashchange", () => this.isReady && this.follow());
    addEventListener("keydown", (event) => this.key(event));
    byId("views").addEventListener("keydown", (event) => this.tabKey(event));
    addEventListener("beforeprint", () => this.print(true));
    addEventListener("afterprint", () => this.print(false));
  }

  // Arrows go from tab to tab, as in every list of tabs.
  tabKey(event) {
    const names = Object.keys(this.views),
      by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by) return;
    const next = names[(names.indexOf(this.shown) + by + names.length) % names.length];
    this.go(next);
    byId(`tab-${next}`).focus();
    event.preventDefault();
    event.stopPropagation();
  }

  // Paper is light, whatever the screen is.
  print(isPrinted) {
    if (!this.isReady) return;
    this.isPrinted = isPrinted;
    document.documentElement.classList.toggle("printing", isPrinted);
    this.theme(isPrinted ? "light" : this.chosen);
    this.shownNow(this.shown);
    for (const grid of this.grids)
      if (grid) {
        grid.isPrinted = isPrinted;
        grid.fill(true);
      }
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (!this.isReady || byId("keys").open) return;
    const { key, target } = event;
    if (target.matches?.("input:not([type=checkbox]), select, textarea")) {
      if (key === "Escape") target.blur();
      return;
    }
    const names = Object.keys(this.views);
    if (key === "/") byId("search").focus();
    else if (key === "?") byId("keys").showModal();
    else if (key >= "1" && key <= String(names.length)) this.go(names[key - 1]);
    else if (key === "n" || key === "N") this.next(key === "n" ? 1 : -1);
    else if (key === "Escape") {
      this.search("");
      this.unselect();
    } else if (key === "Enter") {
      if (target.closest?.("button, a, summary")) return;
      this.next(event.shiftKey ? -1 : 1);
    } else if (!this.viewKey(key)) return;
    event.preventDefault();
  }
}
