// @ts-check
// The page of a comparison: a place or a frame is selected in all views, and the address says which.
class DiffData {
  constructor({ body, columns }) {
    Object.assign(this, { body, columns, lit: null });
  }

  shortName(name) {
    return this.body.shorts[name] ?? this.body.names[name];
  }
}

class DiffPage extends Views {
  static KEYS = [
    ["1 … 4", "views"],
    [", .", "the place before and behind"],
    ["click", "select a place, or zoom to a frame"],
    ["/", "search by a pattern"],
    ["n N", "next place that was found, the one before"],
    ["0", "the whole flame graph"],
    ["Esc", "select nothing, search nothing"],
  ];

  constructor() {
    super(DiffPage.KEYS);
    const said = this.head.overview;
    this.letters = said.sides.map(({ letter, name }) => (letter === name ? letter : `${letter} (${name})`));
    this.place = 0;
    this.frame = -1;
    this.matches = [];
    this.matching = new Matching();
    this.begin(this.head.title, {
      overview: [new DiffOverview(this, said), "Overview"],
      flame: [new DiffFlame(this), "Flame graph"],
      places: [new DiffPlaces(this), "Places"],
      tables: [new DiffTables(this), "Tables"],
    });
  }

  async load() {
    this.drawAll(new DiffData(await this.unpacked()));
  }

  shownNow(name) {
    if (name === "flame") this.flame.draw();
    this.details();
  }

  get linked() {
    return this.place ? [`place=${this.place}`] : this.frame >= 0 ? [`frame=${this.frame}`] : [];
  }

  follow() {
    const asked = new URLSearchParams(location.hash.slice(1));
    const number = (name) => (/^\d{1,9}$/.test(asked.get(name) ?? "") ? Number(asked.get(name)) : null);
    if (asked.has("view")) this.show(asked.get("view"));
    const place = number("place"),
      frame = number("frame");
    if (place) {
      if (!asked.has("view")) this.show("places");
      this.selectPlace(place);
    } else if (frame !== null && frame < this.flame.made.n) {
      if (!asked.has("view")) this.show("flame");
      this.selectFrame(frame);
      this.flame.reveal(frame);
    }
  }

  get rows() {
    return this.trace.body.tables.find((one) => one.name === "diff_places").rows;
  }

  selectPlace(number) {
    if (number < 1 || number > this.rows) {
      this.say(`there are ${Show.count(this.rows)} places`);
      return;
    }
    this.place = number;
    this.frame = -1;
    this.places.open(number);
    this.tables.mark(number);
    this.flame.revealPlace(number);
    this.details();
    this.link();
  }

  showPlace(view, number) {
    this.show(view);
    this.selectPlace(number);
  }

  selectFrame(frame) {
    this.frame = frame;
    this.place = 0;
    this.tables.grid.fill(true);
    this.details();
    this.link();
  }

  unselect() {
    this.place = 0;
    this.frame = -1;
    this.tables.grid.fill(true);
    this.flame.draw();
    this.details();
    this.link();
  }

  details() {
    const isShown = this.frame >= 0 || (this.place > 0 && this.shown !== "places"),
      box = this.selectedBox(isShown);
    if (!isShown) return;
    const acts = (...more) =>
      el(
        "div",
        { class: "acts" },
        ...more,
        actButton("Copy link", (event) => copyText(location.href, event.currentTarget)),
        actButton("✕", () => this.unselect()),
      );
    if (this.place) {
      const place = this.trace.body.places[this.place - 1];
      box.replaceChildren(
        el(
          "div",
          { class: "what" },
          el(
            "b",
            {},
            place
              ? `${place.place}. ${place.op}${place.times > 1 ? ` × ${Show.count(place.times)}` : ""}`
              : `place ${this.place}`,
          ),
          place ? el("span", {}, DiffShow.both(...place.ns)) : null,
          place?.module ? el("span", { class: "dim" }, place.module) : null,
        ),
        el("div", { class: "around" }, place ? place.why : "All that is known of it is in the table diff_places."),
        acts(
          actButton("Flame graph", () => this.showPlace("flame", this.place)),
          actButton("Place", () => this.showPlace("places", this.place)),
          actButton("Table", () => this.showPlace("tables", this.place)),
        ),
      );
      return;
    }
    const { flame, trace } = this,
      inside = flame.placesIn(this.frame);
    box.replaceChildren(
      el(
        "div",
        { class: "what" },
        el("b", {}, trace.body.names[flame.made.name[this.frame]]),
        ...flame.tells(this.frame).map(([kind, text]) => el("span", { class: kind }, text)),
      ),
      el(
        "div",
        { class: "around" },
        inside.length === 1 ? "in the place " : `in ${Show.count(inside.length)} places: `,
        ...inside
          .slice(0, 8)
          .flatMap(({ place, ns }, k) => [
            k ? ", " : "",
            el("a", { href: `#view=places&place=${place}` }, `${place}. ${trace.body.places[place - 1]?.op ?? ""}`),
            ` ${DiffShow.change(ns[1] - ns[0])}`,
          ]),
        inside.length > 8 ? `, and ${Show.count(inside.length - 8)} more` : null,
      ),
      acts(
        actButton("Flame graph", () => {
          this.show("flame");
          flame.reveal(this.frame);
          this.link();
        }),
      ),
    );
  }

  search(text) {
    byId("search").value = text;
    this.behind = 0;
    if (!text) {
      this.matching.stop();
      this.found(null, "");
      return;
    }
    const { names, places } = this.trace.body;
    const texts = [...names, ...places.flatMap(({ op, module, why }) => [op, module ?? "", why ?? ""])];
    this.matching.find(text, texts, (found, note) => this.found(found, note));
    if (this.matching.isBusy) this.say("searching …");
  }

  // What a search found: of all names, then of the op, the module and the reason of each place, which fit.
  found(fits, note) {
    const { names, places } = this.trace.body;
    const isFound = (place, k) =>
      [0, 1, 2].some((part) => fits[names.length + 3 * k + part]) ||
      place.sides.some((side) => side.kernels.some(([name]) => fits[name]));
    this.trace.lit = fits?.subarray(0, names.length) ?? null;
    this.matches = fits ? places.filter(isFound).map((one) => one.place) : [];
    const frames = fits ? this.flame.made.name.reduce((sum, name) => sum + fits[name], 0) : 0;
    this.say(
      fits ? `${Show.count(frames)} frames, ${Show.count(this.matches.length)} places${note && `, ${note}`}` : "",
    );
    if (this.shown === "flame") this.flame.draw();
    else this.flame.tellMatched();
    if (this.behind) this.next(this.behind);
    this.behind = 0;
  }

  next(by) {
    this.nextMatch(by, this.matching.isBusy, this.place, (one) => this.selectPlace(one), "places");
  }

  recolor() {
    this.flame.draw();
  }

  get grids() {
    return [this.tables.grid, this.flame.grid];
  }

  viewKey(key) {
    if (key === "," || key === ".") {
      const to = this.place + (key === "." ? 1 : -1);
      if (to >= 1 && to <= this.rows) this.selectPlace(to);
      return true;
    }
    if (key !== "0" || this.shown !== "flame") return false;
    this.flame.zoomed = -1;
    this.flame.draw();
    this.flame.listFrames();
    return true;
  }
}

new DiffPage().run();
