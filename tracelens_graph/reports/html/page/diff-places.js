// @ts-check
// Times of two sides, as texts.
const DiffShow = {
  change: (ns) => `${DiffShow.changeMs(ns / 1e6)} ms`,

  ms: (value) => Show.number(value, 3),

  signed: (value, digits) => (value > 0 ? "+" : value < 0 ? "−" : "±") + Show.number(Math.abs(value), digits),

  changeMs: (value) => DiffShow.signed(value, 3),

  percent: (change, of) => (of ? ` (${change >= 0 ? "+" : "−"}${Math.abs((100 * change) / of).toFixed(1)} %)` : ""),

  // Times of both sides in one unit, so that they can be held against each other.
  times: (a, b) => `${DiffShow.ms(a / 1e6)} -> ${DiffShow.ms(b / 1e6)} ms`,

  both: (a, b) => `${DiffShow.times(a, b)}: ${DiffShow.change(b - a)}${DiffShow.percent(b - a, a)}`,

  // A bar to the left for what became less, to the right for more, of the most that is drawn.
  bar(ns, most) {
    const share = most ? Math.abs(ns) / most : 0;
    const made = el("div", { class: "change", "aria-hidden": "true" }, el("i", { class: ns < 0 ? "less" : "more" }));
    made.firstChild.style.width = `${50 * share}%`;
    return made;
  },

  command: ([label, text]) =>
    el(
      "p",
      { class: "command" },
      el("span", { class: "dim" }, `${label}: `),
      el("code", {}, text),
      el(
        "button",
        { type: "button", onclick: (event) => copyText(text, event.currentTarget), "aria-label": `Copy: ${text}` },
        "Copy",
      ),
    ),
};

// Where the two sides part: a list, and all that is known of the place that is chosen.
class DiffPlaces {
  constructor(app) {
    this.app = app;
    this.root = el("section", { class: "places", id: "view-places", role: "tabpanel", "aria-label": "Places" });
  }

  start(trace) {
    this.trace = trace;
    const { places, tables } = trace.body;
    const table = tables.find((one) => one.name === "diff_places");
    const most = Math.max(...places.map((one) => Math.abs(one.ns[1] - one.ns[0])), 0);
    this.list = el("nav", { class: "list", "aria-label": "Places, the largest change first" });
    this.one = el("div", { class: "one" });
    this.root.append(this.list, this.one);
    if (!places.length) this.one.append(el("p", { class: "dim" }, "The GPU work is the same, event by event."));
    this.list.append(
      ...places.map((place) =>
        el(
          "button",
          { type: "button", "data-place": place.place, onclick: () => this.app.selectPlace(place.place) },
          el(
            "span",
            { class: "head" },
            el("b", {}, DiffShow.change(place.ns[1] - place.ns[0])),
            DiffShow.bar(place.ns[1] - place.ns[0], most),
          ),
          el(
            "span",
            { class: "op" },
            `${place.place}. ${place.op}${place.times > 1 ? ` × ${Show.count(place.times)}` : ""}`,
          ),
          place.module ? el("span", { class: "dim" }, place.module) : null,
        ),
      ),
    );
    if (table.rows > places.length)
      this.list.append(
        el(
          "p",
          { class: "dim" },
          `${Show.count(table.rows - places.length)} more, with less of a change, are in the table.`,
        ),
      );
    if (places.length) this.open(1);
  }

  open(number) {
    const place = this.trace.body.places[number - 1];
    for (const button of this.list.querySelectorAll("button")) {
      const isIt = Number(button.dataset.place) === number;
      button.setAttribute("aria-current", isIt);
      if (isIt) button.scrollIntoView?.({ block: "nearest" });
    }
    this.number = number;
    if (!place) {
      this.one.replaceChildren(el("p", { class: "dim" }, `Place ${Show.count(number)} is in the table diff_places.`));
      return;
    }
    const [a, b] = place.ns;
    this.one.replaceChildren(
      ...[
        el("h2", {}, `${place.place}. ${place.op}${place.times > 1 ? ` × ${Show.count(place.times)}` : ""}`),
        place.module ? el("p", { class: "dim" }, place.module) : null,
        el("p", { class: "figures" }, DiffShow.both(a, b)),
        el("p", {}, place.why),
        el("p", { class: "dim" }, `${place.reason}: ${place.meaning}`),
        el("div", { class: "sides" }, ...place.sides.map((side, k) => this.side(side, k, place.sides[1 - k]))),
        place.drawn.length ? el("h3", {}, "The calls that differ") : null,
        place.drawn.length ? this.drawing(place.drawn) : null,
        place.commands.length ? el("h3", {}, "Ask further") : null,
        ...place.commands.map(DiffShow.command),
        el(
          "p",
          { class: "acts" },
          el("button", { type: "button", onclick: () => this.app.showPlace("flame", number) }, "Flame graph"),
          el("button", { type: "button", onclick: () => this.app.showPlace("tables", number) }, "Table"),
        ),
      ].filter(Boolean),
    );
    this.one.scrollTop = 0;
  }

  side(side, k, other) {
    const facts = [
      ["shapes", side.shapes, other.shapes],
      ["types", side.types, other.types],
      ["line", side.line, other.line],
      ["longest, uid", side.uid, null],
    ].filter(([, value]) => value != null);
    return el(
      "div",
      { class: `side side-${"ab"[k]}` },
      el("h3", {}, this.app.letters[k]),
      facts.length || side.kernels.length
        ? el(
            "dl",
            {},
            ...facts.flatMap(([label, value, that]) => [
              el("dt", {}, label),
              el("dd", { class: that != null && that !== value ? "other" : "" }, value),
            ]),
          )
        : el("p", { class: "dim" }, "nothing here"),
      side.kernels.length
        ? el(
            "ul",
            {},
            ...side.kernels.map(([name, count, ns]) =>
              el(
                "li",
                {},
                el("span", { class: "number" }, `${Show.count(count)} ×, ${DiffShow.ms(ns / 1e6)} ms`),
                el("span", {}, this.trace.body.names[name]),
              ),
            ),
          )
        : null,
      side.more ? el("p", { class: "dim" }, `and ${Show.count(side.more)} more kernels`) : null,
    );
  }

  drawing(lines) {
    const of = (line) => (line[0] === "-" ? "minus" : line[0] === "+" ? "plus" : "");
    return el("pre", { tabIndex: 0 }, ...lines.map((line) => el("div", { class: of(line) }, line || " ")));
  }
}
