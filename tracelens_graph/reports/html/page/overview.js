// The first view: what the report says. It stands before the events are unpacked.
class Overview {
  constructor(app, said) {
    this.app = app;
    this.said = said;
    this.root = el("section", { class: "overview", id: "view-overview", role: "tabpanel", "aria-label": "Overview" });
    const [headline, ...causes] = said.findings;
    this.root.append(
      ...[
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
        this.bar("Where the GPU's span went", said.parts),
        said.steps.length ? this.steps(said.steps) : null,
        el("div", { class: "pair" }, this.facts(said.facts), this.missing(said.missing)),
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
            finding.ask
              ? el("code", { title: "Click to copy", onclick: () => copyText(finding.ask) }, finding.ask)
              : null,
          ),
    ].filter(Boolean);
  }

  bar(title, parts) {
    const whole = parts.reduce((sum, part) => sum + part.ns, 0);
    if (!whole) return null;
    return el(
      "figure",
      { class: "share" },
      el("figcaption", {}, `${title}: ${Show.span(whole)}`),
      this.stack(parts, whole),
      el(
        "ul",
        { class: "legend" },
        ...parts.map((part) =>
          el(
            "li",
            { class: "key" },
            el("i", { class: `swatch c-${part.class}` }),
            `${part.label} `,
            el("b", {}, Show.percent(part.ns, whole)),
            el("span", { class: "dim" }, ` ${Show.span(part.ns)}`),
          ),
        ),
      ),
    );
  }

  stack(parts, whole) {
    const made = svg("svg", {
      class: "stack",
      viewBox: "0 0 1000 26",
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": parts.map((part) => `${part.label} ${Show.percent(part.ns, whole)}`).join(", "),
    });
    let x = 0;
    for (const part of parts) {
      const width = (1000 * part.ns) / whole;
      made.append(
        svg("rect", {
          x,
          y: 0,
          width,
          height: 26,
          class: `c-${part.class}`,
          onpointermove: (event) =>
            Tip.at(event, [
              ["name", part.label],
              ["", `${Show.span(part.ns)}, ${Show.percent(part.ns, whole)}`],
            ]),
          onpointerleave: () => Tip.hide(),
        }),
      );
      x += width;
    }
    return made;
  }

  steps(steps) {
    const most = Math.max(...steps.map((step) => step.parts.reduce((sum, part) => sum + part.ns, 0)), 1);
    return el(
      "figure",
      { class: "steps" },
      el("figcaption", {}, "Steps on the device"),
      ...steps.map((step) => {
        const whole = step.parts.reduce((sum, part) => sum + part.ns, 0);
        const bar = el("div", { class: "track" }, this.stack(step.parts, whole || 1));
        bar.firstChild.style.width = `${(100 * whole) / most}%`;
        return el(
          "div",
          { class: "step" },
          step.uid == null ? el("span", {}, step.name) : el("a", { href: `#uid=${step.uid}` }, step.name),
          bar,
          el("span", { class: "number" }, Show.span(whole)),
        );
      }),
    );
  }

  facts(facts) {
    return el(
      "div",
      {},
      el("h3", {}, "What was recorded"),
      el("dl", {}, ...facts.flatMap(([label, value]) => [el("dt", {}, label), el("dd", {}, value)])),
    );
  }

  missing(missing) {
    return el(
      "div",
      {},
      el("h3", {}, "Not recorded"),
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
    this.drawn.textContent = `Drawn: ${Show.count(drawn.events)} events of host and GPU.${left.length ? ` Not drawn: ${left.join("; ")}.` : ""}`;
  }
}
