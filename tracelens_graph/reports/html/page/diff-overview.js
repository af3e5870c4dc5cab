// @ts-check
// The first view of a comparison: what changed in all, why, and what was compared.
class DiffOverview {
  static PLACES = 5;

  constructor(app, said) {
    this.app = app;
    this.root = el("section", { class: "overview", id: "view-overview", role: "tabpanel", "aria-label": "Overview" });
    this.root.append(
      ...[
        el(
          "div",
          { class: "headline" },
          el("h2", {}, said.headline),
          ...said.sides.map((side) => el("p", {}, side.text)),
          ...said.said.map((note) => el("p", { class: "dim" }, note)),
        ),
        said.reasons.length ? this.reasons(said.reasons) : null,
        (this.places = el("div", { class: "top" })),
        this.times(said.totals),
        this.span(said.sides),
        said.idle.length ? this.idle(said.idle) : null,
        this.facts(said),
      ].filter(Boolean),
    );
  }

  reasons(reasons) {
    const changed = reasons.reduce((sum, one) => sum + one.slower_ms + one.faster_ms, 0);
    const most = Math.max(...reasons.flatMap((one) => [one.slower_ms, one.faster_ms]));
    const bar = (one) => {
      const made = el(
        "div",
        {
          class: "change",
          role: "img",
          "aria-label": `faster by ${DiffShow.ms(one.faster_ms)} ms, slower by ${DiffShow.ms(one.slower_ms)} ms`,
        },
        el("i", { class: "less" }),
        el("i", { class: "more" }),
      );
      made.firstChild.style.width = `${most ? (50 * one.faster_ms) / most : 0}%`;
      made.lastChild.style.width = `${most ? (50 * one.slower_ms) / most : 0}%`;
      return made;
    };
    return el(
      "figure",
      {},
      el("figcaption", {}, "Why: share of all that became faster or slower"),
      el(
        "div",
        { class: "reasons" },
        ...reasons.flatMap((one) => [
          el("span", { class: "number" }, Show.percent(one.slower_ms + one.faster_ms, changed)),
          bar(one),
          el("span", { class: "number" }, `${DiffShow.changeMs(one.b_ms - one.a_ms)} ms`),
          el(
            "span",
            {},
            el("a", { href: `#view=places&place=${one.first}` }, one.reason),
            el(
              "span",
              { class: "dim" },
              ` ${one.meaning}; ${Show.count(one.places)} ${one.places === 1 ? "place" : "places"}`,
            ),
          ),
        ]),
      ),
    );
  }

  times(totals) {
    const number = (text) => el("td", { class: "number" }, text);
    return plainTable(
      "Times",
      ["", "A ms", "B ms", "change ms", "change %"].map((text, k) => [text, k > 0]),
      totals.map((row) =>
        el(
          "tr",
          {},
          el("td", {}, row.meaning),
          number(DiffShow.ms(row.a_ms)),
          number(DiffShow.ms(row.b_ms)),
          number(DiffShow.changeMs(row.change_ms)),
          number(row.change_percent == null ? "" : DiffShow.signed(row.change_percent, 1)),
        ),
      ),
    );
  }

  // Both spans to one scale, with idle time by cause.
  span(sides) {
    const rows = sides.map((side, k) => ({ name: this.app.letters[k], parts: side.parts }));
    const parts = new Map();
    rows.forEach((row, k) => {
      for (const part of row.parts) {
        if (!parts.has(part.label)) parts.set(part.label, { ...part, both: [0, 0] });
        parts.get(part.label).both[k] += part.ns;
      }
    });
    if (!parts.size) return null;
    const says = (part) => [el("span", { class: "dim" }, DiffShow.times(...part.both))];
    return Bars.rows("Where the GPU's span went", rows, Bars.legend([...parts.values()], says));
  }

  idle(rows) {
    const most = Math.max(...rows.map((row) => Math.abs(row.change_ms)));
    return el(
      "figure",
      {},
      el("figcaption", {}, "Time without GPU work, by cause"),
      el(
        "div",
        { class: "reasons" },
        ...rows.flatMap((row) => [
          el("span", { class: "number" }, `${DiffShow.changeMs(row.change_ms)} ms`),
          DiffShow.bar(row.change_ms, most),
          el("span", { class: "number" }, `${DiffShow.ms(row.a_ms)} -> ${DiffShow.ms(row.b_ms)}`),
          el(
            "span",
            {},
            el("b", {}, `${row.part === "around" ? "around the GPU work: " : ""}${row.cause.replace(/_/g, " ")}`),
            el("span", { class: "dim" }, ` ${row.why}`),
          ),
        ]),
      ),
    );
  }

  facts(said) {
    return el(
      "figure",
      {},
      el("figcaption", {}, "What was compared"),
      el(
        "table",
        { class: "plain" },
        el(
          "thead",
          {},
          el("tr", {}, el("th", {}, ""), ...this.app.letters.map((text) => el("th", { scope: "col" }, text))),
        ),
        el(
          "tbody",
          {},
          ...said.facts.map(([label, a, b]) =>
            el(
              "tr",
              { class: a === b ? "" : "other" },
              el("th", { scope: "row" }, label),
              ...[a, b].map((text) => el("td", {}, text ?? "not recorded")),
            ),
          ),
        ),
      ),
    );
  }

  start(trace) {
    const { places } = trace.body;
    const changed = places.filter((one) => one.reason !== "same").slice(0, DiffOverview.PLACES);
    if (!changed.length) return;
    this.places.append(
      el(
        "h3",
        {},
        changed.length === 1
          ? "The place with most of the change"
          : `The ${changed.length} places with most of the change`,
      ),
      el(
        "ol",
        { class: "causes" },
        ...changed.map((one) =>
          el(
            "li",
            { class: one.ns[1] < one.ns[0] ? "faster" : "slower" },
            el(
              "p",
              { class: "text" },
              el("b", {}, DiffShow.change(one.ns[1] - one.ns[0])),
              " ",
              el(
                "a",
                { href: `#view=places&place=${one.place}` },
                `${one.op}${one.times > 1 ? ` × ${Show.count(one.times)}` : ""}`,
              ),
              el("span", { class: "dim" }, `  ${DiffShow.times(...one.ns)}`),
            ),
            one.module ? el("p", { class: "dim" }, one.module) : null,
            el("p", {}, one.why),
          ),
        ),
      ),
    );
  }
}
