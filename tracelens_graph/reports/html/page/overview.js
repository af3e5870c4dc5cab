// @ts-check
// The first view: what the report says. It stands before the events are unpacked.
class Overview {
  constructor(app, said) {
    this.app = app;
    this.said = said;
    this.root = el("section", { class: "overview", id: "view-overview", role: "tabpanel", "aria-label": "Overview" });
    const [headline, ...causes] = said.findings;
    this.root.append(
      ...[
        said.window
          ? el(
              "p",
              { class: "window" },
              el("b", {}, `Only ${said.window}.`),
              " Figures, views and tables are of this part of the trace, except where they say that they are of the whole.",
            )
          : null,
        said.damage ? el("p", { class: "warning" }, `The file is damaged: ${said.damage}`) : null,
        headline ? el("div", { class: "headline" }, el("h2", {}, headline.text), ...this.more(headline)) : null,
        causes.length
          ? el(
              "ol",
              { class: "causes" },
              ...causes.map((one) =>
                el("li", { class: one.severity }, el("p", { class: "text" }, one.text), ...this.more(one)),
              ),
            )
          : null,
        Bars.share("Where the GPU's span went", said.parts),
        said.memory.length
          ? el(
              "p",
              { class: "peak" },
              el("b", {}, "Peak of memory: "),
              `${said.memory.join("; ")} `,
              el("a", { href: "#view=memory" }, "show memory"),
            )
          : null,
        said.dearest.rows.length ? this.dearest(said.dearest) : null,
        said.steps.length ? Bars.rows("Steps on the device", said.steps) : null,
        el(
          "div",
          { class: "pair" },
          el(
            "div",
            {},
            said.window ? this.facts(`In this part: ${said.window}`, said.of_window) : null,
            this.facts(said.window ? "The whole trace" : "What was recorded", said.facts),
            said.options.length ? this.facts("Options of the report", said.options) : null,
          ),
          this.missing(said.missing, said.window ? "Not recorded, of the whole trace" : "Not recorded"),
        ),
        (this.drawn = el("p", { class: "dim" }, "Unpacking the events…")),
      ].filter(Boolean),
    );
  }

  more(finding) {
    return [
      finding.try.length ? el("p", { class: "try" }, `Try: ${finding.try.join("; ")}`) : null,
      finding.uid == null && !finding.ask
        ? null
        : el(
            "p",
            { class: "ask" },
            finding.uid == null
              ? null
              : el("a", { href: `#uid=${finding.uid}`, class: "node" }, `show uid ${finding.uid}`),
            finding.ask ? command(finding.ask) : null,
          ),
    ].filter(Boolean);
  }

  // The operations with most GPU time, and the module or line that calls them.
  dearest({ title, rows, notes }) {
    const isPlaced = rows.some((row) => row.mostly_in);
    const number = (...inside) => el("td", { class: "number" }, ...inside);
    const headings = ["operation", "GPU ms", "%", "calls", ...(isPlaced ? ["mostly in"] : []), "longest"];
    const made = plainTable(
      title,
      headings.map((text) => [text, !["operation", "mostly in"].includes(text)]),
      rows.map((row) =>
        el(
          "tr",
          {},
          el("th", { scope: "row", title: row.name }, Show.cut(row.name, 60)),
          number(Show.number(row.total_ms, 3)),
          number(Show.number(row.percent, 1)),
          number(Show.count(row.count)),
          ...(isPlaced ? [el("td", { title: row.mostly_in }, Show.cut(row.mostly_in, 70))] : []),
          number(row.uid == null ? null : el("a", { href: `#uid=${row.uid}`, class: "node" }, `uid ${row.uid}`)),
        ),
      ),
    );
    made.append(...notes.map((note) => el("p", { class: "dim" }, note)));
    return made;
  }

  facts(title, facts) {
    return el(
      "div",
      {},
      el("h3", {}, title),
      el("dl", {}, ...facts.flatMap(([label, value]) => [el("dt", {}, label), el("dd", {}, value)])),
    );
  }

  missing(missing, title) {
    return el(
      "div",
      {},
      el("h3", {}, title),
      missing.length
        ? el(
            "ul",
            {},
            ...missing.map((one) =>
              el(
                "li",
                {},
                el("b", {}, one.what),
                `: ${one.poorer}. `,
                el("span", { class: "dim" }, `Record with: ${one.how}`),
              ),
            ),
          )
        : el("p", { class: "dim" }, "Nothing that this page lacks."),
    );
  }

  start(trace) {
    const { drawn } = trace.body;
    const left = Object.entries(drawn.left_out).map(([what, count]) => `${Show.count(count)} × ${what}`);
    const instants = drawn.instants
      ? `, ${Show.count(drawn.instants)} ${drawn.instants === 1 ? "allocation or release" : "allocations and releases"}`
      : "";
    this.drawn.textContent = `Drawn: ${Show.count(drawn.events)} events of host and GPU${instants}.${left.length ? ` Not drawn: ${left.join("; ")}.` : ""}`;
  }
}
